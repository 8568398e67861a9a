"""Grid CRFs for images: denoising, segmentation, inpainting."""

from loopwise.apps.grid_crf.estimator import GridCRF
from loopwise.apps.grid_crf.lattice import Lattice
from loopwise.apps.grid_crf.pair import ContrastPair, TiedPair
from loopwise.apps.grid_crf.training import published_chain
from loopwise.apps.grid_crf.unary import AffineUnary, ConvUnary

__all__ = ["AffineUnary", "ContrastPair", "ConvUnary", "GridCRF", "Lattice", "TiedPair", "published_chain"]
