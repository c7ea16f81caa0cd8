"""Value types of all layers; starters use light dataclasses to save milliseconds of import."""

__all__ = ("light_dataclass",)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as light_dataclass
else:

    def light_dataclass(*, kw_only, frozen=False):  # mypy alone enforces `frozen`
        """Return a class decorator that adds an `__init__` with the annotated names as keywords."""
        assert kw_only

        def add_init(cls):
            names = cls.__annotations__.keys()
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}

            def __init__(self, **values):  # noqa: N807 - becomes a method of `cls`
                given = defaults | values  # published files have the values in the order of the annotations
                vars(self).update({name: given.pop(name) for name in names if name in given} | given)
                if vars(self).keys() != names:
                    raise TypeError(f"{cls.__name__}: wrong or missing {vars(self).keys() ^ names}")

            cls.__init__ = __init__
            return cls

        return add_init
