"""Sites on S3: in memory, where each request is a call that can fail, or on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hivesink.storage.s3 import S3Files, S3FileStore
from tests.crash.site import Site
from tests.inmemory.s3 import MemoryS3, objects_of

if TYPE_CHECKING:
    from hivesink.ports import FileStore
    from hivesink.storage.fs import Files
    from tests.sink.harness import Source

BUCKET = "s3a://bucket"


def adapters(client: Any) -> tuple[FileStore, Files]:
    """The stores of a client, which tries each request once and one after the other, so that calls have numbers."""
    objects = objects_of(client)
    return S3FileStore(objects, parallelism=1), S3Files(objects)


def s3_site(
    source: Source,
    options: dict[str, str],
    client: Any = None,
    root: str = BUCKET,
    tasks: int = 2,
    *,
    dead: bool = False,
) -> Site:
    """A site whose files are in the bucket of `client`."""
    s3 = client or MemoryS3()
    return Site(source, options=dict(options), connect=lambda: s3, adapters=adapters, root=root, tasks=tasks, dead=dead)
