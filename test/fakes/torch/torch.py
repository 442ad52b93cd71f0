"""Stands in for PyTorch where functions of a worker are tested that compute nothing with it."""


class OutOfMemoryError(RuntimeError):
    pass


class nn:  # pylint: disable=invalid-name
    class Module:
        pass


class cuda:  # pylint: disable=invalid-name
    @staticmethod
    def is_available():
        return False
