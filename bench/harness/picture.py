"""Results as a picture: how many times better Tandem is than each peer, on a logarithmic scale, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from harness.measure import Result

WIDTH, LABELS, FIGURES = 960, 430, 70  # of the picture, of the names left of the bars, of what stands right of them
ROW, HEADING, TOP, BOTTOM = 20, 30, 64, 40
BETTER, WORSE, TARGET, TEXT, QUIET, GRID = "#2a6f97", "#c1554a", "#d98e04", "#222222", "#666666", "#dddddd"
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"


@dataclass(frozen=True)
class Bar:
    label: str
    ratio: float
    low: float  # of our lowest round to the other's highest
    high: float
    target: float | None


def bars_of(result: Result) -> list[Bar]:
    """One a metric and other contender, where both have numbers."""
    bars = []
    for metric in result.metrics:
        for other in result.contenders[1:]:
            ratio = result.ratio(metric, other)
            ours, theirs = result.summary(result.contenders[0], metric), result.summary(other, metric)
            if not ratio or not math.isfinite(ratio):
                continue
            edges = sorted((ours.low / theirs.high, ours.high / theirs.low))
            if metric.better.value == "lower":
                edges = sorted((theirs.low / ours.high, theirs.high / ours.low))
            bars.append(Bar(f"{metric.name}, {other}", ratio, *edges, metric.at_least_times.get(other)))
    return bars


class Scale:
    """From a ratio to a place between the names and the figures."""

    def __init__(self, bars: Iterable[Bar]):
        numbers = [1.0]
        for bar in bars:
            numbers += [number for number in (bar.low, bar.high, bar.ratio, bar.target) if number]
        # Infinite edges, of runs that never got there, are cut at the border.
        finite = [number for number in numbers if math.isfinite(number) and number > 0]
        self.first = math.floor(math.log10(min(finite)))
        self.last = max(self.first + 1, math.ceil(math.log10(max(finite))))

    def x(self, ratio: float) -> float:
        share = (math.log10(ratio) - self.first) / (self.last - self.first) if ratio > 0 else 0.0
        return LABELS + min(1.0, max(0.0, share)) * (WIDTH - LABELS - FIGURES)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def draw(results: Iterable[Result], caption: str) -> str:
    """An SVG document. `caption`: the machine and the commit."""
    groups = [(result.name, bars) for result in results if not result.failure and (bars := bars_of(result))]
    scale = Scale(bar for _, bars in groups for bar in bars)
    height = TOP + sum(HEADING + ROW * len(bars) for _, bars in groups) + BOTTOM
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' viewBox='0 0 {WIDTH} {height}'>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        _text(16, 26, "Times better than the peer", size=17, weight="bold"),
        _text(16, 46, caption, size=11, fill=QUIET),
    ]
    for decade in scale.decades():
        x = scale.x(decade)
        stroke = QUIET if decade == 1 else GRID
        parts.append(f"<line x1='{x:.1f}' y1='{TOP}' x2='{x:.1f}' y2='{height - BOTTOM}' stroke='{stroke}'/>")
        parts.append(_text(x, height - BOTTOM + 16, f"{decade:g}", size=11, fill=QUIET, anchor="middle"))
    parts.append(
        _text(LABELS, height - 8, "bars: medians; lines: from the lowest round to the highest; marks: targets",
              size=11, fill=QUIET)
    )
    y = float(TOP)
    for name, bars in groups:
        parts.append(_text(16, y + HEADING - 9, name, size=13, weight="bold"))
        y += HEADING
        for bar in bars:
            parts += _bar(bar, y, scale)
            y += ROW
    return "\n".join([*parts, "</svg>", ""])


def _bar(bar: Bar, y: float, scale: Scale) -> list[str]:
    one, end, middle = scale.x(1), scale.x(bar.ratio), y + ROW / 2
    color = BETTER if bar.ratio >= 1 else WORSE
    left, width = min(one, end), max(1.0, abs(end - one))
    low, high = scale.x(bar.low), scale.x(bar.high)
    parts = [
        _text(LABELS - 10, middle + 4, bar.label, size=12, anchor="end"),
        f"<rect x='{left:.1f}' y='{y + 4:.1f}' width='{width:.1f}' height='{ROW - 8}' fill='{color}'/>",
        f"<line x1='{low:.1f}' y1='{middle:.1f}' x2='{high:.1f}' y2='{middle:.1f}' stroke='{TEXT}'/>",
        _text(max(end, high) + 6, middle + 4, _figure(bar.ratio), size=12),
    ]
    if bar.target:
        at = scale.x(bar.target)
        parts.append(
            f"<line x1='{at:.1f}' y1='{y + 1:.1f}' x2='{at:.1f}' y2='{y + ROW - 1:.1f}' stroke='{TARGET}'"
            " stroke-width='3'/>"
        )
    return parts


def _figure(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2g}"


def _text(
    x: float, y: float, text: str, *, size: int, fill: str = TEXT, weight: str = "normal", anchor: str = "start"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
