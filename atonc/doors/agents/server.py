"""The protocol: tools, the skill page as resource and prompt, errors with their fix, progress, cancellation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from atonc.doors.agents.sandbox import Sandbox
from atonc.doors.agents.tools import TOOLS, AgentTool, command_line, document_place, input_schema
from atonc.doors.agents.worker import LINES
from atonc.doors.serve.jobs import Message, ProcessEnd, run_limited, why_failed
from atonc.doors.serve.limits import JobLimits
from atonc.doors.serve.worker import REQUEST, RESULT
from atonc.machine.base.about import SENTENCE, __version__
from atonc.machine.base.disk import read_file, write_file
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import listed, size_text

SKILL, SKILL_URI, PROMPT = Path(__file__).with_name("SKILL.md"), "atonc://skill", "from-symptom-to-fix"
MOST_DOCUMENT = 64 << 20  # bytes that are read of what a verb printed
MOST_GIVEN = 200_000  # characters of a document that an agent gets; its context is dear
MOST_LINES = 4_000  # characters of what a verb says beside its document
LONGEST_LINE = 1 << 20  # bytes of a message
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,80}")')
_ID_BYTES = 4096  # at both ends of a message, where it may stand
Context = Any  # of a request; generic in what nobody needs here


@dataclass(frozen=True)
class AgentDoor:
    """What an agent can ask for, in one folder, within limits."""

    sandbox: Sandbox
    limits: JobLimits
    scratch: Path  # of the calls; each has a folder of its own
    places: asyncio.Semaphore
    waiting: set[object]

    def server(self) -> Server[Any]:
        return Server(
            "atonc",
            version=__version__,
            instructions=f"{SENTENCE} Read {SKILL_URI} first: it leads from a symptom to the fix.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )

    async def list_tools(self, context: Context, asked: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def call_tool(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(asked.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {asked.name[:60]!r}; there are {', '.join(TOOLS)}")
        try:
            return await self._call(context, tool, asked.arguments or {})
        except AtoncError as error:
            return _failed(error.as_dict())
        except OSError as error:  # a full disk, a name that is too long
            return _failed(InputError(error.strerror or str(error), where=str(error.filename or "")).as_dict())

    async def _call(self, context: Context, tool: AgentTool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        words, place = command_line(tool, arguments, self.sandbox), document_place(arguments, self.sandbox)
        if len(self.waiting) >= self.limits.waiting:
            raise InputError(f"{len(self.waiting)} calls are waiting", remedy="wait for some of them")
        call = object()
        self.waiting.add(call)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            async with self.places:
                return await self._work(context, tool, words, folder, place)
        finally:
            self.waiting.discard(call)
            shutil.rmtree(folder, ignore_errors=True)

    async def _work(
        self, context: Context, tool: AgentTool, words: list[str], folder: Path, place: str
    ) -> types.CallToolResult:
        request = {"words": words, "staged": tool.staged, "folder": str(self.sandbox.root)}
        (folder / REQUEST).write_text(json.dumps({**request, "limits": asdict(self.limits)}), "utf-8")
        ended = await self._watched(context, tool, folder)
        if ended.timed_out or ended.signal:
            return _failed(why_failed(ended, [], self.limits))
        try:
            data = read_file(folder / RESULT, MOST_DOCUMENT)
            found = json.loads(data)
        except (InputError, ValueError, RecursionError):
            return _failed(why_failed(ended, [], self.limits))
        if place:
            write_file(self.sandbox.root / place, data)
        if "error" in found:
            return _failed(found["error"])
        lines = (folder / LINES).read_text("utf-8", "replace")[:MOST_LINES]
        return _given(found, ended.exit_code, lines, shlex.join(["atonc", *words]))

    async def _watched(self, context: Context, tool: AgentTool, folder: Path) -> ProcessEnd:
        """The process of a call, whose stages are told as progress; ended with all its children if the call is."""
        news: asyncio.Queue[Message | None] = asyncio.Queue()
        command = [sys.executable, "-P", "-m", "atonc.doors.agents.worker"]
        work = asyncio.create_task(run_limited(command, folder, self.limits.clock_seconds, news.put_nowait))
        work.add_done_callback(lambda _: news.put_nowait(None))
        told, before = 0, 0.0
        try:
            while (message := await news.get()) is not None:
                stage, share = str(message.get("stage"))[:80], float(message.get("share") or 0)
                if not tool.staged:
                    told += 1
                    await context.session.report_progress(told, None, f"{stage}, {share:.0%}")
                elif share > before:
                    before = share
                    await context.session.report_progress(share, 1.0, stage)
            return await work
        finally:
            if not work.done():
                work.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([work])

    # --------------------------------------------------------------------------------------------------- the skill

    async def list_resources(self, context: Context, asked: object) -> types.ListResourcesResult:
        about = "which tool to call for which symptom, and what to change"
        skill = types.Resource(
            uri=SKILL_URI, name="skill", title="From symptom to fix", description=about, mime_type="text/markdown"
        )
        return types.ListResourcesResult(resources=[skill])

    async def read_resource(self, context: Context, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(asked.uri) != SKILL_URI:
            raise MCPError(types.INVALID_PARAMS, f"no resource {str(asked.uri)[:80]!r}; there is {SKILL_URI}")
        text = SKILL.read_text("utf-8")
        page = types.TextResourceContents(uri=SKILL_URI, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[page])

    async def list_prompts(self, context: Context, asked: object) -> types.ListPromptsResult:
        wanted = [
            types.PromptArgument(name="model", description="the model in the folder", required=True),
            types.PromptArgument(name="symptom", description="too slow, too much RAM, wrong answers, ..."),
        ]
        prompt = types.Prompt(name=PROMPT, description="find what is wrong with a model and fix it", arguments=wanted)
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(self, context: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        if asked.name != PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {asked.name[:60]!r}; there is {PROMPT}")
        given = asked.arguments or {}
        model, symptom = given.get("model", "the model"), given.get("symptom", "see what can be better")
        task = f"Do this for {model[:200]!r} with the tools of atonc: {symptom[:500]}"
        text = f"{SKILL.read_text('utf-8')}\n---\n{task}\n"
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(messages=[message])


def _described(tool: AgentTool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not tool.writes, destructive_hint=tool.writes, open_world_hint=False)
    return types.Tool(name=tool.name, description=tool.does, input_schema=input_schema(tool), annotations=hints)


def _given(found: dict[str, Any], code: int, lines: str, command: str) -> types.CallToolResult:
    """The document, as an object and as text; of one that is too long its largest parts are left out and named."""
    sizes = {key: len(json.dumps(value)) for key, value in found.items()}
    left: list[str] = []
    while sum(sizes.values()) > MOST_GIVEN:
        left.append(max(sizes, key=lambda key: sizes[key]))
        del sizes[left[-1]]
    document = {key: found[key] for key in sizes}
    said = [f"command: {command}"]
    if left:
        parts = listed([f"{key} ({size_text(len(json.dumps(found[key])))})" for key in left])
        said.append(f"left out because of its size: {parts}; the argument document writes all of it to a file")
    if code:
        said.append(f"exit code {code}: a gate does not hold, or a check failed")
    texts = (json.dumps(document), "\n".join([*said, lines]).rstrip())
    content: list[Any] = [types.TextContent(text=text) for text in texts]
    return types.CallToolResult(content=content, structured_content=document)


def _failed(error: Mapping[str, Any]) -> types.CallToolResult:
    """An error of a verb: first line, causes, fixes; the same words as an object."""
    words = {key: str(error.get(key) or "") for key in ("what", "where", "rule", "remedy")}
    shown = AtoncError(words["what"], where=words["where"], rule=words["rule"], remedy=words["remedy"])
    lines = [*shown.lines(), *map(str, error.get("details") or ())]
    content: list[Any] = [types.TextContent(text="\n".join(lines)[:MOST_GIVEN])]
    return types.CallToolResult(content=content, structured_content={"error": dict(error)}, is_error=True)


class MessageLines:
    """Lines of a client. A longer one than `LONGEST_LINE` is not kept: `refuse` gets the number of the request, so that
    the client is told."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.refuse: Callable[[Any], Awaitable[None]] | None = None

    def __aiter__(self) -> MessageLines:
        return self

    async def __anext__(self) -> str:
        while True:
            line, number = await anyio.to_thread.run_sync(self.read, abandon_on_cancel=True)
            if number is not None and self.refuse is not None:
                await self.refuse(number)
            elif not line:
                raise StopAsyncIteration
            else:
                return line

    def read(self) -> tuple[str, Any]:
        """A line; or the number of the request in one that is too long, and in its place a message of no kind."""
        line = self._stream.readline(LONGEST_LINE)
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            return line.decode("utf-8", "replace"), None
        before = line
        while (rest := self._stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            before = rest
        number = _ID.search(line[:_ID_BYTES]) or _ID.search((before + rest)[-_ID_BYTES:])
        return "{}\n", json.loads(number[1]) if number else None


def _too_long(number: Any) -> SessionMessage:
    says = f"the message is longer than {size_text(LONGEST_LINE)}, and was not read"
    error = types.ErrorData(code=types.INVALID_REQUEST, message=says)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


def serve(folder: Path, limits: JobLimits) -> None:
    """Until the client closes the connection."""
    with tempfile.TemporaryDirectory(prefix="atonc-mcp-", ignore_cleanup_errors=True) as scratch:
        anyio.run(_serve, Sandbox(folder, limits.upload_bytes), limits, Path(scratch))


async def _serve(sandbox: Sandbox, limits: JobLimits, scratch: Path) -> None:
    def end(number: int) -> None:  # the processes of calls end with their standard input
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    door = AgentDoor(sandbox, limits, scratch, asyncio.Semaphore(limits.processes), set())
    lines, server = MessageLines(sys.stdin.buffer), door.server()
    async with stdio_server(stdin=cast(Any, lines)) as (reading, writing):
        lines.refuse = lambda number: writing.send(_too_long(number))
        await server.run(reading, writing, server.create_initialization_options())
