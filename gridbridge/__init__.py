"""gridbridge: independently run Grid Engine and OAR clusters share work."""

TYPE_CHECKING = False  # imported late, because starters and methods import this module too and never need an Executor
if TYPE_CHECKING:
    from gridbridge.campaigns.executor.call_campaigns import CallFailed as CallFailed
    from gridbridge.campaigns.executor.campaign_executor import Executor as Executor

__version__ = "1.0.0"
_MODULES = {
    "CallFailed": "gridbridge.campaigns.executor.call_campaigns",
    "Executor": "gridbridge.campaigns.executor.campaign_executor",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
