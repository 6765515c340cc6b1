"""What outputs are worth: a record of each sample where it is computed, figures of all records at the end."""

from atonc.insight.evaluating.metrics.base import Metric, MetricFigure
from atonc.insight.evaluating.metrics.choose import metric_for

__all__ = ["Metric", "MetricFigure", "metric_for"]
