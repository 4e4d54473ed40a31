"""Operations on images."""
import dm_pix as pix
import jax

_IMAGE = jax.random.uniform(jax.random.key(0), (32, 48, 3))


def colours():
    return [f(_IMAGE).mean((0, 1)) for f in (
        pix.rgb_to_grayscale, pix.rgb_to_hsv, lambda x: pix.adjust_contrast(x, 1.5),
        lambda x: pix.adjust_gamma(x, 2.0), pix.rot90, pix.flip_left_right,
        lambda x: pix.solarize(x, 0.5))]


def blur():
    return pix.gaussian_blur(_IMAGE, 1.0, kernel_size=5)[8:10]


def rotation():
    return pix.rotate(_IMAGE, 0.3, order=1, mode="constant")[8:10]


def metrics():
    return pix.ssim(_IMAGE, _IMAGE[::-1]), pix.psnr(_IMAGE, _IMAGE[::-1])


@jax.jit
def _augment(key, x):
    a, b, c = jax.random.split(key, 3)
    x = pix.random_flip_left_right(a, x)
    x = pix.random_brightness(b, x, 0.2)
    return pix.random_crop(c, x, (24, 24, 3))


def step():
    return _augment(jax.random.key(1), _IMAGE)
