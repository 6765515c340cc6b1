"""The search: what is proposed is built; what leads is kept, and what it shows leads to further proposals.

A candidate that found no memory, or whose epochs nobody trusts, is mended first: its proposals come before all others.
When nothing is left to build, generators look at a candidate that leads and that they have not looked at. One leads if
there is one objective; with two, all that no other beats. Decisions, goal and order are all that counts, so the same
network gives the same program; a budget of builds ends it in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field

from atonc.compiler.search import silicon
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Candidate, Setting, Watch, no_watch
from atonc.compiler.search.goal import Goal
from atonc.compiler.search.log import START, Attempt, Proposal, Verdict
from atonc.compiler.select.decisions import Decisions
from atonc.machine.base import progress
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Generator:
    """Looks at candidates of one kind."""

    of: Verdict
    propose: Callable[[Candidate], Iterable[Proposal]]


@dataclass
class Search:
    """What was built so far, and what comes next."""

    setting: Setting
    generators: tuple[Generator, ...]
    goal: Goal
    queue: deque[Proposal] = field(default_factory=deque)
    tried: set[Decisions] = field(default_factory=set)
    log: list[Attempt] = field(default_factory=list)
    sound: list[Candidate] = field(default_factory=list)  # all that fit, in the order in which they were built
    trusted: list[Candidate] = field(default_factory=list)  # those of them whose forms were asked for: the best so far
    leaders: list[Candidate] = field(default_factory=list)
    looked_at: set[Candidate] = field(default_factory=set)
    first: Candidate | None = None
    last: Candidate | None = None

    def next(self) -> Proposal | None:
        """What nobody has tried, as long as the budget lasts."""
        while len(self.log) < self.goal.most_builds and (self.queue or self._look_further()):
            proposal = self.queue.popleft()
            if proposal.decisions not in self.tried:
                self.tried.add(proposal.decisions)
                return proposal
        return None

    def _look_further(self) -> bool:
        for leader in self.leaders:
            if not self.queue and leader not in self.looked_at:
                self.looked_at.add(leader)
                self.queue.extend(self._proposals(Verdict.BEST, leader))
        return bool(self.queue)

    def take(self, proposal: Proposal, candidate: Candidate) -> None:
        self.first, self.last = self.first or candidate, candidate
        verdict = self._verdict(candidate)
        self.log.append(Attempt.of(proposal, candidate, verdict))
        if verdict in (Verdict.BEST, Verdict.KEPT_OUT):
            self.sound.append(candidate)
            self.trusted += [candidate] if verdict == Verdict.BEST else []
            self.leaders = self.goal.leaders(self.trusted, self.sound)
        else:
            self.queue.extendleft(reversed(list(self._proposals(verdict, candidate))))

    def _verdict(self, candidate: Candidate) -> Verdict:
        if candidate.built is None:
            return Verdict.NO_MEMORY
        if candidate.undecided:
            return Verdict.UNDECIDED
        if candidate not in self.goal.leaders([*self.trusted, candidate], [*self.sound, candidate]):
            return Verdict.KEPT_OUT
        return Verdict.UNTRUSTED if candidate.refused else Verdict.BEST

    def _proposals(self, kind: Verdict, candidate: Candidate) -> Iterator[Proposal]:
        for generator in self.generators:
            if generator.of == kind:
                yield from generator.propose(candidate)


def search(
    setting: Setting, start: Decisions, generators: tuple[Generator, ...], watch: Watch = no_watch
) -> tuple[Candidate, Search]:
    """The best program, and how it was found. Without generators: the program of these very decisions."""
    found = Search(setting, generators, Goal(setting.prefer, setting.by_dma), deque([Proposal(start, START)]))
    while (proposal := found.next()) is not None:
        progress.stage("building the program")
        found.take(proposal, build(setting, proposal.decisions, proposal.of, watch if not found.log else no_watch))
    if not found.leaders:
        assert found.first is not None and found.last is not None
        raise found.first.shortage or silicon.no_end(found.last.refused)
    return found.leaders[0], found
