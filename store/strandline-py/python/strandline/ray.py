"""An executor on Ray, for :func:`strandline.sweep`. Needs Ray."""

import concurrent.futures as futures

__all__ = ["RayExecutor"]


def _call(function, arguments, keywords):
    return function(*arguments, **keywords)


class RayExecutor(futures.Executor):
    """Runs functions as tasks of Ray.

    It connects to the cluster of ``ray.init`` or ``RAY_ADDRESS``, or starts one on this machine. ``workers`` is the number of tasks at a time;
    by default it is the number that the cluster has processors for. Other keywords are those of ``ray.remote``, such as ``num_cpus`` of each task or
    ``runtime_env={"pip": [wheel]}``.
    """

    def __init__(self, workers=None, **options):
        import ray

        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        options.setdefault("num_cpus", 1)
        # The sweep runs lost points again, and counts the attempts.
        options.setdefault("max_retries", 0)
        processors = ray.cluster_resources().get("CPU", 1)
        self._max_workers = workers or max(1, int(processors / max(options["num_cpus"], 0.01)))
        self._task = ray.remote(**options)(_call)
        self._ray = ray
        self._is_shut = False
        self._running = {}

    def submit(self, fn, /, *args, **kwargs):
        """Starts a task, and returns a future of its result."""
        if self._is_shut:
            raise RuntimeError("the executor was shut down")
        reference = self._task.remote(fn, args, kwargs)
        future = reference.future()
        self._running[future] = reference
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Accepts no further tasks. The cluster stays."""
        self._is_shut = True
        running = list(self._running.items())
        if cancel_futures:
            for _, reference in running:
                self._ray.cancel(reference)
        if wait:
            futures.wait([future for future, _ in running])
