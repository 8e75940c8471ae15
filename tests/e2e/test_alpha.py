"""A canvas with alpha in a page: what lies behind it shows through, with both decoders."""

from __future__ import annotations

import numpy as np
import pytest

from rfb_gpu import PngEncoder
from rfb_gpu.codecs import AlphaJpegEncoder
from tests.e2e import harness
from tests.e2e.widget_page import WidgetPage, closing
from tests.gpu.helpers import texture_of
from tests.gpu.test_alpha import all_pairs, scene

BEHIND = (40, 220, 130)


def over_the_page(image: np.ndarray) -> np.ndarray:
    """What a compositor makes of a picture of premultiplied colour and the page behind it."""
    alpha = image[..., 3:] / 255
    return image[..., :3] + (1 - alpha) * np.array(BEHIND)


def encoded(device, image: np.ndarray, encoder) -> tuple[bytes, int]:
    frame = encoder.encode(texture_of(device, image)).result()
    encoder.close()
    return bytes(frame), frame.alpha_start


@pytest.mark.parametrize("decoder", ["webgpu", "browser"])
def test_the_page_shows_through(browsers, device, decoder):
    image = scene(200, 150)
    height, width = image.shape[:2]
    truth = over_the_page(image)
    png, in_it = encoded(device, image, PngEncoder(device, "premultiplied"))
    with closing(WidgetPage(browsers(1.0), decoder)) as page:
        page.page.evaluate("colour => { document.body.style.background = colour }", f"rgb{BEHIND}")
        canvas = page.canvas()

        def show(file, alpha, size=(width, height), **options):
            if decoder == "webgpu":
                page.show_by_own_decoder(file, *size, alpha=alpha, **options)
            else:
                assert page.show(file, *size, alpha=alpha, **options), page.badge
            return canvas.screenshot().astype(float)

        # One level for rounding to what is on the screen, one for the browser's ways there.
        assert np.abs(show(png, in_it, codec="png") - truth).max() <= 2
        pairs = all_pairs()
        file, alpha = encoded(device, pairs[:200], PngEncoder(device, "premultiplied"))
        assert np.abs(show(file, alpha, (256, 200), codec="png") - over_the_page(pairs[:200])).max() <= 2

        for subsampling, at_least in (("444", 36), ("420", 32)):
            file, alpha = encoded(device, image, AlphaJpegEncoder(device, 80, subsampling))
            assert 0 < alpha < len(file)
            shown = show(file, alpha)
            assert harness.psnr(shown, truth) > at_least
            assert (shown[110:, 120:] == BEHIND).all(), "nothing is there"

        # A part takes the place of what was there, also where it lets the page through.
        base = page.frame
        stripe = np.zeros((40, width, 4), np.uint8)
        stripe[:20, :, 2:] = 128
        file, alpha = encoded(device, stripe, PngEncoder(device, "premultiplied"))
        part = {"y": 30, "rows": 40, "base": base, "index": 0}
        assert page.show(file, width, height, codec="png", part=part, alpha=alpha), page.badge
        laid_over = canvas.screenshot().astype(float)
        assert np.abs(laid_over[30:70] - over_the_page(stripe)).max() <= 2
        assert np.abs(laid_over[70:] - shown[70:]).max() <= 2
        assert page.console == []
