from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

class RayExecutor(Executor):
    def __init__(self, workers: int | None = None, **options: Any) -> None: ...
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
