"""A compiled model as a Python user meets it: figures, layers, runs, files. `atonc.compile` gives one;
and how compiled networks run on the emulated chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.compiler.place.usage import MemoryUse
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.machine.base.errors import InputError, ToolError, plain
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.words import count, instead

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.emit.program import Program
    from atonc.compiler.ir import Array, Graph, Tensor
    from atonc.compiler.lower.map_ops import Mapped
    from atonc.compiler.place import Layout
    from atonc.compiler.verify.report import VerifyReport
    from atonc.delivery.generate.post import PostProcessing
    from atonc.insight.evaluating.boxes import Boxes
    from atonc.insight.report.document import Document
    from atonc.machine.cost.band import PredictionBand
    from atonc.machine.cost.energy import EnergyEstimate
    from atonc.machine.emu.batches import Session
    from atonc.machine.emu.network import EmulatedNetwork


def data_frame(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    try:
        import pandas
    except ImportError:
        raise ToolError("pandas is not installed", remedy="pip install pandas, or use rows()") from None
    return pandas.DataFrame(rows, columns=columns)


Outputs = dict[str, "Array"]


def run_compiled(compiled: Compiled, inputs: Mapping[str, Any]) -> Outputs:
    """Every sample for itself: states, where there are some, begin with their first values."""
    return _each(session_of(compiled), inputs)


def run_loaded(network: EmulatedNetwork, inputs: Mapping[str, Any]) -> Outputs:
    """The same with a network that was read from its folder."""
    return _each(network.stream(), inputs)


def session_of(compiled: Compiled) -> Session:
    from atonc.compiler.inputs.inputs import compiled_inputs
    from atonc.compiler.verify.emulation import Emulation
    from atonc.machine.emu.batches import Session, as_declared

    graph, program = compiled.graph, compiled.program
    emulation = Emulation(program, graph)

    def run(frame: Mapping[str, Any]) -> Outputs:
        found = emulation.run(compiled_inputs(compiled, frame))
        return {name: found[name] for name in graph.frame_outputs}

    def states() -> Outputs:
        return {one.name: as_declared(emulation.load(one.name), graph.turned.get(one.name)) for one in program.states}

    return Session({name: graph.tensors[name].shape for name in graph.frame_inputs}, run, emulation.reset, states)


def _each(session: Session, inputs: Any) -> Outputs:
    """One sample, or those of a batch one after the other, none with the states of another."""
    from atonc.compiler.inputs.inputs import joined, samples_of
    from atonc.insight.report.terminal import in_notebook
    from atonc.machine.base import progress

    samples = samples_of(session.shapes, inputs) if isinstance(inputs, Mapping) else None
    if samples is None:
        return session.frame(inputs)
    found = []
    with in_notebook():
        for number, sample in enumerate(samples):
            progress.stage("running", number, len(samples))
            session.reset()
            found.append(session.frame(sample))
    return joined(found)


@dataclass(frozen=True)
class NetworkMemory(MemoryUse):
    """Bytes that the network takes: `ram_bytes` in all, and what for."""

    lower_bound_bytes: int = 0  # no layout of the activations takes less
    __repr__ = brief

    @property
    def pools(self) -> Mapping[str, int]:
        """Memory -> bytes used of it."""
        return self.by_pool


class LayerTable(Sequence[LayerView]):
    """The layers in the order in which they run; as a table with `to_pandas()`."""

    COLUMNS = ("name", "kind", "on", "shape", "macs", "cycles", "milliseconds", "energy_uj", "bound_by", "rules")

    def __init__(self, layers: Sequence[LayerView]) -> None:
        self._layers = tuple(layers)

    @overload
    def __getitem__(self, index: int | str) -> LayerView: ...
    @overload
    def __getitem__(self, index: slice) -> LayerTable: ...
    def __getitem__(self, index: int | str | slice) -> LayerView | LayerTable:
        """By place, by name (the layer's own, or that of a node of the model in it), or several by a slice."""
        if isinstance(index, str):
            return self._named(index)
        return LayerTable(self._layers[index]) if isinstance(index, slice) else self._layers[index]

    def _named(self, name: str) -> LayerView:
        named = {node: layer for layer in reversed(self._layers) for node in layer.nodes}
        named |= {layer.name: layer for layer in reversed(self._layers)}
        if name not in named:
            raise KeyError(f"no layer is called {name[:80]!r}; {instead(name, named)}")
        return named[name]

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[LayerView]:
        return iter(self._layers)

    def __repr__(self) -> str:
        time = sum(layer.milliseconds for layer in self)
        return f"<{count(len(self), 'layer')}, {time:.3f} ms; to_pandas() gives a table>"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": layer.name,
                "kind": layer.kind,
                "on": layer.on,
                "shape": "x".join(map(str, layer.shape)),
                "macs": layer.macs,
                "cycles": layer.cycles,
                "milliseconds": layer.milliseconds,
                "energy_uj": layer.energy_uj,
                "bound_by": max(layer.bound_by, key=lambda label: layer.bound_by[label], default=""),
                "rules": ", ".join(decision.rule.id for decision in layer.decisions),
            }
            for layer in self
        ]

    def to_pandas(self) -> Any:
        """A data frame with a row for every layer."""
        return data_frame(self.rows(), self.COLUMNS)

    def _repr_html_(self) -> str:
        from atonc.insight.report.notebook import row_table

        return row_table(self.rows())


class Compilation:
    """A verified program with everything that is known of it.

    Figures are predicted by models of the hardware, not measured; `prediction_error` says how far they may be off.

    >>> c = atonc.compile("examples/digits/digits.tflite")
    >>> c.inputs[0].name, c.layers["CONV_2D_1"].on, c.memory.flash_bytes > c.memory.code_constants_bytes
    ('image', 'npu', True)
    """

    def __init__(self, view: CompileView, model: Any = None) -> None:
        """`model`: what it was made from, as it was given; without it the file of the view."""
        self.view = view
        self.model: Any = model if model is not None else view.path

    def require_unchanged(self, file: Path) -> None:
        """A verb that reads the model again must find the same one."""
        if not file.is_file() or self.view.reproduce.get(MODEL_HASH) != sha256(file.read_bytes()).hexdigest():
            raise InputError("is gone, or not the model that was compiled", where=str(file), remedy="compile it again")

    # --- figures -------------------------------------------------------------------------------------------------

    @property
    def latency_ms(self) -> float:
        return self.view.cost.latency_ms

    @property
    def cycles(self) -> int:
        return self.view.cost.cycles

    @property
    def latency_low_ms(self) -> float:
        """What may pass at the least, and `latency_high_ms` at the most: the band around the prediction."""
        return self.band.around(self.latency_ms)[0]

    @property
    def latency_high_ms(self) -> float:
        return self.band.around(self.latency_ms)[1]

    @property
    def energy(self) -> EnergyEstimate:
        """What an inference is estimated to take: `uj`, `core_uj` and `board_uj` with low, likely and high."""
        return self.view.cost.energy

    @property
    def prediction_error(self) -> float:
        """The larger side of the band, relative: 0.03 means about 3 %."""
        return self.band.relative

    @property
    def band(self) -> PredictionBand:
        """How far the prediction may be off, downwards and upwards, and because of what."""
        return self.view.cost.band

    @property
    def memory(self) -> NetworkMemory:
        counted = self.view.memory
        return NetworkMemory(counted.rows, counted.weights_bytes, self.layout.lower_bound_bytes)

    @cached_property
    def layers(self) -> LayerTable:
        return LayerTable(self.network.layers)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of a frame, each with name, shape, dtype, scale and zero_point."""
        return tuple(self.graph.tensors[name] for name in self.graph.frame_inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.tensors[name] for name in self.graph.frame_outputs)

    @property
    def states(self) -> tuple[Tensor, ...]:
        """What the network keeps from one inference to the next, by the names of its inputs in the model."""
        kept = (self.graph.tensors[one.name] for one in self.program.states)
        return tuple(replace(one, shape=self.graph.declared_shape(one.name)) for one in kept)

    @cached_property
    def network(self) -> NetworkView:
        """The picture that all reports share: steps, layers with reasons, buffers, pools."""
        from atonc.insight.explain.ours import network_view

        return network_view(self.view)

    # --- what the stages gave -------------------------------------------------------------------------------------

    @property
    def compiled(self) -> Compiled:
        return self.view.compiled

    @property
    def source(self) -> Graph:
        """The model as it was read."""
        return self.compiled.source

    @property
    def graph(self) -> Graph:
        """The canonical graph: inputs and outputs are those of the program."""
        return self.compiled.graph

    @property
    def mapped(self) -> Mapped:
        return self.compiled.mapped

    @property
    def layout(self) -> Layout:
        return self.compiled.layout

    @property
    def program(self) -> Program:
        return self.compiled.program

    @property
    def verification(self) -> VerifyReport | None:
        return self.compiled.report

    # --- doing something with it ----------------------------------------------------------------------------------

    def run(self, inputs: Any = None, **named: Any) -> dict[str, Array]:
        """Outputs by name, as the emulated chip computes them.

        `inputs`: a dictionary by name; or, of a network with one input, its value. Values are codes, real numbers
        (which become codes), or pictures: files or Pillow images. Several samples: arrays with an axis more, or as long
        as there are samples along the model's first one, or lists of pictures; outputs are then as many. A network with
        states begins every sample with their first values; `stream` keeps them.
        """
        from atonc.compiler.inputs.inputs import given_by_name

        given = given_by_name(self.graph.frame_inputs, inputs, named)
        return run_compiled(self.compiled, given)

    def stream(self) -> Session:
        """A sequence on the emulated chip, frame by frame: states stay from one call to the next.

        >>> import numpy as np
        >>> session = atonc.compile("examples/streaming/stream.tflite").stream()
        >>> frames = np.load("examples/streaming/frames.npy")
        >>> session(frames[0])["score"].shape, session.run(frames[1:])["score"].shape, session.frames
        ((1, 1, 1, 2), (39, 1, 1, 2), 40)
        >>> {name: value.shape for name, value in session.states.items()}
        {'before': (1, 2, 1, 8)}
        >>> session.reset()  # where the next sequence begins
        """
        return session_of(self.compiled)

    def save(
        self,
        folder: str | PathLike[str],
        hex: bool = False,
        stai: bool = False,
        shared_kernels: bool = False,
        selftest: bool = False,
        front_end: str | PathLike[str] = "",
        post: str = "",
        **post_options: Any,
    ) -> list[Path]:
        """The files of `atonc generate`, all together or none. `front_end`: a preset or a file that describes one;
        `post`: the family of a detector, whose boxes are wanted as C too; `post_options`: the others of `PostOptions`.
        """
        from atonc.delivery.front_end.fitting import with_front_end, with_hop
        from atonc.delivery.generate import generating, preflight
        from atonc.delivery.generate.selftest import with_selftest

        preflight.check_folder(Path(folder))
        view = with_hop(self.view, Path(front_end)) if front_end else self.view
        files = dict(generating.files_of(view, hex, stai, shared_kernels))
        files = with_selftest(view, files) if selftest else files
        files = with_front_end(view, files, Path(front_end)) if front_end else files
        if post or post_options:
            from atonc.delivery.generate.post import with_post

            files = with_post(view, files, self._post_processing(post, post_options))
        return [Path(file) for file in generating.write_build(view, Path(folder), files).files]

    def post(self, outputs: Mapping[str, Array], family: str = "auto", **options: Any) -> Boxes:
        """Boxes of a detector from what `run` gives for one sample: corners in pixels of the input, scores, classes and
        points, the same bits as the C of `generate --post`. The options are those of
        `atonc.insight.evaluating.options.PostOptions`, such as `post_score=0.4`.
        """
        from atonc.delivery.generate.post import boxes_of

        missing = [name for name in self.graph.outputs if name not in outputs]
        if missing:
            raise InputError(f"no output {missing[0][:80]!r} among what was given", remedy="give what run() gives")
        found = self._post_processing(family, options)
        return boxes_of(found, [outputs[name] for name in self.graph.outputs])

    def _post_processing(self, family: str, options: Mapping[str, Any]) -> PostProcessing:
        from atonc.delivery.generate.post import post_processing
        from atonc.insight.evaluating.options import PostOptions
        from atonc.machine.base.declare import arguments

        return post_processing(self.view, arguments(PostOptions, {"post": family, **options}))

    def report(self, path: str | PathLike[str]) -> Path:
        """Writes the report: a page (.html) or plain text (.txt)."""
        from atonc.delivery.generate import preflight
        from atonc.machine.base.disk import write_file

        file = Path(path)
        preflight.check_file(file)
        if file.suffix.lower() in (".html", ".htm"):
            from atonc.insight.report.html import html_page

            write_file(file, html_page(self.network))
        elif file.suffix.lower() in (".txt", ".text"):
            from atonc.insight.report.compile_text import report
            from atonc.insight.report.document import lines

            write_file(file, ("\n".join(lines(report(self.view))) + "\n").encode())
        else:
            raise InputError("a report is .html or .txt", where=str(file), remedy="name it so")
        return file

    # --- how it looks ---------------------------------------------------------------------------------------------

    @property
    def document(self) -> Document:
        """What `atonc generate` prints, as sections and figures; `.data()` is its JSON."""
        from atonc.insight.report.compile_text import document

        return document(self.view)

    def __repr__(self) -> str:
        from atonc.insight.report.compile_text import short_lines

        return plain(short_lines(self.view)[0])

    def __str__(self) -> str:
        from atonc.insight.report.compile_text import short_lines

        return "\n".join(short_lines(self.view))

    def _repr_html_(self) -> str:
        from atonc.insight.report.compile_text import picture
        from atonc.insight.report.notebook import fragment

        return fragment(picture(self.view, self.network, self.layers.rows()))
