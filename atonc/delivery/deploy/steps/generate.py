"""The model compiled, with the memory pools of the application."""

from __future__ import annotations

from atonc.compiler.request.options import Options
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, inputs_digest, put
from atonc.delivery.deploy.journal import Contents, digest
from atonc.delivery.generate.profiles import read_profile
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

NAME = "network"
_MOST_MODEL = 1 << 30


def _options(deployment: Deployment) -> Options:
    """Pictures come from the camera as bytes, channels last; outputs as the post-processing wants them."""
    profile = read_profile(deployment.layout.profile) if deployment.layout.profile else None
    if profile is not None and profile.encrypt_weights:
        raise InputError(
            "the profile asks for --encrypt-weights",
            where=deployment.layout.profile,
            rule="deploy flashes what it makes; encrypted weights go over a board first (docs/encryption.md)",
            remedy="take --encrypt-weights out of the profile, or generate, encrypt and flash by hand",
        )
    pools = profile.memory_pool if profile is not None else None
    pictures = deployment.config.use_case not in ("audio_event_detection", "speech_enhancement")
    return Options(
        board=deployment.config.board.lower(),
        mpool=str(pools or ""),
        input_type="uint8" if pictures else "",
        output_type=deployment.output_type,
        inputs_channel_position="chlast" if pictures and not deployment.model.channels_last else "",
        verify=deployment.wishes.verify,
    )


def uses_stai(deployment: Deployment) -> bool:
    """Applications of the newer interface have its file beside their network."""
    return deployment.current(f"{deployment.layout.network}/stai_network.c") is not None


def _inputs(deployment: Deployment, options: Options) -> str:
    pools = digest(read_file(deployment.root / options.mpool, _MOST_MODEL)) if options.mpool else ""
    model = digest(read_file(deployment.model_file, _MOST_MODEL))
    kept = (options.board, options.input_type, options.output_type, options.inputs_channel_position, options.verify)
    return inputs_digest(model, deployment.model_file.name, pools, *kept, uses_stai(deployment))


def _compiled(deployment: Deployment, options: Options) -> Contents:
    from atonc.delivery.generate.generating import analyze, files_of

    view = analyze(deployment.model_file, options, NAME)
    files = files_of(view, with_hex=True, with_stai=uses_stai(deployment))
    return {f"{deployment.layout.generated}/{name}": data for name, data in files.items()}


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    options = _options(deployment)
    inputs = _inputs(deployment, options)
    if deployment.is_done(STEP.name, inputs):
        return StepResult(skipped="compiled before")
    if dry_run:
        what = f"would compile {deployment.model_file.name} to {deployment.layout.generated}"
        return StepResult(note=what)
    files = deployment.recorded(STEP.name, inputs, _compiled(deployment, options))
    return put(deployment, files, dry_run, f"{deployment.layout.generated}/{NAME}.c")


STEP = DeployStep("generate", "compile the model", run)
