from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

class RayExecutor(Executor):
    def __init__(self, workers: int | None = None, **options: Any) -> None: ...
    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
