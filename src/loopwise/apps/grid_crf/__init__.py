"""Grid CRFs for images: denoising, segmentation, inpainting."""

from loopwise.apps.grid_crf.estimator import GridCRF
from loopwise.apps.grid_crf.model import AffineUnary, ContrastPair, ConvUnary, Lattice, TiedPair
from loopwise.apps.grid_crf.training import published_chain

__all__ = ["AffineUnary", "ContrastPair", "ConvUnary", "GridCRF", "Lattice", "TiedPair", "published_chain"]
