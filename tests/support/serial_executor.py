"""An executor that runs every task at once, in the calling thread: what tests of executors build on."""

from concurrent.futures import Executor, Future


class SerialExecutor(Executor):
    def submit(self, function, /, *given, **options):
        future = Future()
        try:
            future.set_result(function(*given))
        except Exception as error:
            future.set_exception(error)
        return future
