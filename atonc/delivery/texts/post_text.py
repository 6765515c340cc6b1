"""What `generate` says of the post-processing of a detector."""

from __future__ import annotations

from dataclasses import replace

from atonc.delivery.generate.post import CODE_BYTES, PostProcessing
from atonc.insight.report import document as doc
from atonc.machine.base.words import count


def with_post(document: doc.Document, post: PostProcessing) -> doc.Document:
    """The document of a compilation with a section more, and its data."""
    data = document.data
    return replace(
        document,
        sections=[*document.sections, chapter(post)],
        data=lambda: {**data(), "post": post.as_dict()} if data else {"post": post.as_dict()},
    )


def chapter(post: PostProcessing) -> doc.Chapter:
    decoder, about = post.decoder, post.as_dict()
    limits, flash = decoder.limits, f"{post.constants_bytes:,} bytes of constants"
    title = f"{decoder.family.title}, {about['candidates']:,} boxes of {count(decoder.classes, 'class', 'classes')}"
    lines = [
        f"  scores above {limits.score:g}; of boxes of a class that overlap by more than {limits.overlap:g}, the best "
        f"stays; room for {count(limits.most, 'box', 'boxes')}",
        f"  flash: {flash} and at most {CODE_BYTES:,} of code; RAM: {post.scratch_bytes:,} bytes of scratch; figures "
        "of the network do not count them",
    ]
    lines += [f"  {note}" for note in post.notes]
    return doc.Chapter(doc.head("post-processing: ", title), lines)
