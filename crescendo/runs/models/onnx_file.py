"""ONNX file of a built-in regression, which predicts labels as written on any machine, without Crescendo.

The input ``features`` is a matrix of 64-bit floats with a row for each record: the unscaled features, since the file does the
scaling. For a table with a schema these are the features that the schema makes from its columns. The output ``label`` has the
label of each record (a number for least squares); a classifier also has ``probabilities``, a column for each class.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.records import Label
from crescendo.data.scaling import Scaling
from crescendo.errors import UsageError

_OPSET, _IR = 17, 8  # from 2022: every current runtime reads them
_MOST_BYTES = (1 << 31) - (1 << 20)  # a protobuf message is shorter than 2 GiB


def onnx_bytes(
    model: Floats,
    trained: str,
    classes: tuple[Label, ...],
    intercept: bool,
    scaling: Scaling | None,
    features: Sequence[str] = (),
) -> bytes:
    """Return the file of a regression of the kind ``trained``: logistic, softmax or least squares."""
    from onnx import TensorProto, helper, numpy_helper

    table = model.reshape(-1, len(classes) if trained == "softmax" else 1)  # a column for each class
    weights, offsets = (table[:-1], table[-1]) if intercept else (table, np.zeros(table.shape[1]))
    if 8 * (model.size + (0 if scaling is None else 2 * len(weights))) > _MOST_BYTES:
        raise UsageError(f"the model has {model.size:,} numbers, too many for an ONNX file; export it to npz")
    graph = _Graph(helper, numpy_helper)
    x = "features"
    if scaling is not None:
        x = graph.node("Sub", x, graph.constant("centre", scaling.centre))
        x = graph.node("Div", x, graph.constant("width", scaling.width))
    scores = graph.node("Gemm", x, graph.constant("weights", weights), graph.constant("offsets", offsets))
    outputs = _numbers(graph, scores) if trained == "least-squares" else _labels(graph, scores, trained, classes)
    made = helper.make_graph(
        graph.nodes,
        trained,
        [helper.make_tensor_value_info("features", TensorProto.DOUBLE, [None, len(weights)])],
        [helper.make_tensor_value_info(name, kind, [None, *more]) for name, kind, more in outputs],
        graph.constants,
    )
    file = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="crescendo", ir_version=_IR
    )
    said = {"trained": trained, "classes": json.dumps(classes), "features": json.dumps(list(features))}
    helper.set_model_props(file, said)
    content: bytes = file.SerializeToString(deterministic=True)
    return content


_Output = tuple[str, int, list[int]]


def _numbers(graph: _Graph, scores: str) -> list[_Output]:
    graph.node("Squeeze", scores, graph.constant("second axis", np.array([1])), to="label")
    return [("label", graph.kind(np.zeros(0)), [])]


def _labels(graph: _Graph, scores: str, trained: str, classes: tuple[Label, ...]) -> list[_Output]:
    """Add the label with the highest score. In logistic regression a margin of 0 means the second class, as in training."""
    if trained == "logistic":
        above = graph.node("GreaterOrEqual", scores, graph.constant("zero", np.array(0.0)))
        places = graph.node("Squeeze", graph.whole(above), graph.constant("second axis", np.array([1])))
        scores = graph.node("Concat", graph.node("Sub", scores, scores), scores, axis=1)
    else:
        places = graph.node("ArgMax", scores, axis=1, keepdims=0)
    named = np.array(classes)
    named = (
        named.astype(object)
        if named.dtype.kind in "US"
        else named.astype(np.float64 if _fractions(named) else np.int64)
    )
    graph.node("Gather", graph.constant("labels", named), places, axis=0, to="label")
    graph.node("Softmax", scores, axis=1, to="probabilities")
    return [("label", graph.kind(named), []), ("probabilities", graph.kind(np.zeros(0)), [len(classes)])]


def _fractions(labels: Array) -> bool:
    return labels.dtype.kind == "f" and bool((labels != np.rint(labels)).any())


class _Graph:
    """Nodes and constants in the order in which they were added."""

    def __init__(self, helper: Any, arrays: Any) -> None:
        self._helper, self._arrays = helper, arrays
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = to or f"{kind.lower()} {len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def whole(self, of: str) -> str:
        """Add a cast of booleans to whole numbers."""
        name = f"cast {len(self.nodes)}"
        self.nodes.append(self._helper.make_node("Cast", [of], [name], to=self.kind(np.zeros(0, dtype=np.int64))))
        return name

    def constant(self, name: str, values: Array) -> str:
        if name not in [one.name for one in self.constants]:
            self.constants.append(self._arrays.from_array(np.ascontiguousarray(values), name))
        return name

    def kind(self, values: Array) -> int:
        """Return ONNX's number for the type of an array."""
        return int(self._helper.np_dtype_to_tensor_dtype(values.dtype))
