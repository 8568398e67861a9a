"""A decoder that sinter can collect with.

In: options of :class:`~loopwise.apps.Decoder`. Out: a ``sinter.Decoder``. Stage: use. sinter is imported when one is
made.

    >>> from loopwise.apps.decoder.sinter_decoder import sinter_decoder
    >>> custom = {"loopwise": sinter_decoder(sweeps=60)}  # doctest: +SKIP
    >>> sinter.collect(..., decoders=["loopwise"], custom_decoders=custom)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from loopwise.apps.decoder.code import Code
from loopwise.apps.decoder.decoder import Decoder
from loopwise.formats.files import PathLike


def sinter_decoder(make: Callable[[Code], Decoder] | PathLike | None = None, **options: Any) -> Any:
    """A ``sinter.Decoder``.

    Parameters
    ----------
    make: a function of the code (importable, where sinter runs several processes), or the path of a saved decoder,
        whose numbers are then used for every circuit with its checks; None for ``Decoder(code, **options)``.
    """
    if make is not None and options:
        raise ValueError(f"{', '.join(options)}: a decoder that is made or saved already has its own options")
    return _kind()(make, options)


@cache
def _kind() -> type:
    """The class, made where sinter is there to be derived from."""
    try:
        import sinter
    except ImportError:
        raise ValueError("this needs sinter, which is not installed; pip install 'loopwise[decoder]'") from None

    class LoopwiseCompiled(sinter.CompiledDecoder):  # type: ignore[misc]
        def __init__(self, decoder: Decoder) -> None:
            self.decoder = decoder

        def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: Any) -> Any:
            return packed_answers(self.decoder, bit_packed_detection_event_data)

    class LoopwiseDecoder(sinter.Decoder):  # type: ignore[misc]
        def __init__(self, make: Any, options: dict[str, Any]) -> None:
            self.make, self.options = make, options

        def compile_decoder_for_dem(self, *, dem: Any) -> Any:
            return LoopwiseCompiled(decoder_for(dem, self.make, self.options))

        def __reduce__(self) -> Any:  # sinter's workers are new processes, in which the class is not made yet
            return _again, (self.make, self.options)

    return LoopwiseDecoder


def _again(make: Any, options: dict[str, Any]) -> Any:
    return sinter_decoder(make, **options)


def decoder_for(model: Any, make: Any, options: dict[str, Any]) -> Decoder:
    """A decoder for a detector error model."""
    from loopwise.apps.decoder.circuits import code_of_model

    code = code_of_model(model)
    if make is None:
        return Decoder(code, **options)
    if callable(make):
        made: Decoder = make(code)
        return made
    return Decoder.load(make, code)


def packed_answers(decoder: Decoder, packed: Any) -> Any:
    """Flips of observables from detection events, both packed as sinter has them."""
    events = np.unpackbits(packed, axis=1, bitorder="little")[:, : decoder.code.detector_count]
    flips = decoder.run(events).flips
    if flips is None:
        raise ValueError("the circuit has no observables, so there is nothing to predict")
    return np.packbits(flips, axis=1, bitorder="little")
