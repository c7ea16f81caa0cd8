"""What holds for every test: a busy machine makes none of them fail."""

from hypothesis import HealthCheck, settings

from tests.apart import apart as apart

settings.register_profile("gridbridge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gridbridge")
