"""The expressions that sweep.py measures: what people write with jax.numpy, jax.nn,
jax.scipy.special and jax.random, one operation or idiom each, over the arrays of `arrays`."""
from __future__ import annotations

from typing import Any

import numpy as np

TEXT = """
x+y; x*y; x/y; x-v; x**2; x**3; x**y; jnp.abs(x)**y; x//y; x%y; jnp.maximum(x,y);
jnp.minimum(x,0); jnp.hypot(x,y); jnp.arctan2(x,y); jnp.exp(x); jnp.log(p); jnp.log1p(p);
jnp.expm1(x); jnp.sin(x); jnp.cos(x); jnp.tan(x); jnp.tanh(x); jnp.sinh(x); jnp.cosh(x);
jnp.arcsin(p); jnp.arccos(p); jnp.arctan(x); jnp.arctanh(p); jnp.arcsinh(x); jnp.arccosh(1+p);
jnp.sqrt(p); jnp.cbrt(x); lax.rsqrt(p); jnp.exp2(x); jnp.log2(p); jnp.log10(p); jnp.sign(x);
jnp.floor(x); jnp.round(x); jnp.trunc(x); jnp.isnan(x); jnp.isfinite(x); jnp.signbit(x);
jnp.logaddexp(x,y); jnp.nextafter(x,y); jnp.copysign(x,y); jnp.ldexp(x,i%5); jnp.frexp(x);
jnp.modf(x); jnp.nan_to_num(x); jnp.clip(x,-1,1); jnp.where(b,x,y); jnp.where(x>0,x,0);
jnp.heaviside(x,y); jnp.sinc(x); jnp.deg2rad(x); jnp.reciprocal(x); jnp.float_power(p,x); i+i;
i*i; i//7; i%7; i//(i+1); i<<2; i>>1; i^i; ~i; jnp.gcd(i,12); jnp.lcm(i%10+1,4);
lax.population_count(i); lax.clz(i); i.astype('f'); x.astype('i'); x.astype('bool');
u.astype('f'); x.astype(jnp.bfloat16); h.astype('f'); h+h; h*h; jnp.exp(h); jnp.sum(h);
jnp.max(h,1); u+u; u//3; jnp.sum(u); jnp.mean(u,0); b&b; b|~b; b.sum(); b.any(1); b.all(0);
jnp.count_nonzero(x); jnp.sum(x); jnp.sum(x,0); jnp.sum(x,1); jnp.mean(x,0); jnp.var(x,1);
jnp.std(x,0); jnp.max(x); jnp.max(x,0); jnp.min(x,1); jnp.prod(x,1); jnp.argmax(x,1);
jnp.argmax(x,0); jnp.argmin(x); jnp.ptp(x,0); jnp.median(x,1); jnp.quantile(x,.3,axis=0);
jnp.percentile(x,50); jnp.nansum(x); jnp.nanmean(x,1); jnp.average(x,axis=0,weights=k*1.0);
jnp.linalg.norm(x); jnp.linalg.norm(x,axis=1); sp.logsumexp(x,1); jax.nn.softmax(x,0);
jax.nn.softmax(x,1); jax.nn.log_softmax(x); jnp.cumsum(x,0); jnp.cumsum(x,1); jnp.cumprod(x,1);
lax.cummax(x,1); jnp.diff(x); jnp.diff(x,axis=0); jnp.ediff1d(x); jnp.gradient(x)[0];
jnp.trapezoid(x); jnp.cov(x[:50]); jnp.corrcoef(x[:50]); jnp.histogram(x,20)[0];
jnp.bincount(k,length=1000); jnp.digitize(x,jnp.linspace(-2,2,11));
jnp.searchsorted(jnp.sort(v),x); jnp.sort(x,1); jnp.sort(x,0); jnp.argsort(x,1);
jnp.sort(x.ravel()); lax.top_k(x,5); jnp.partition(x,10,axis=1); jnp.unique(k,size=50);
jnp.flip(x,0); jnp.flip(x,1); jnp.roll(x,3,1); jnp.roll(x,3); x.T+0; x.T.copy(); jnp.rot90(x);
jnp.concatenate([x,y]); jnp.concatenate([x,y],1); jnp.stack([x,y]); jnp.stack([x,y],-1);
jnp.tile(x,(2,1)); jnp.repeat(x,2,1); jnp.repeat(x,2,0); jnp.pad(x,1);
jnp.pad(x,2,mode='edge'); jnp.pad(x,2,mode='reflect'); x[::2]; x[:,::2]; x[::-1,1:]; x[k];
x[:,k%x.shape[1]]; jnp.take_along_axis(x,k[:,None],1); x.at[k%x.shape[0]].add(1.);
x.at[:,0].set(1.); x.at[k%x.shape[0],k%x.shape[1]].set(2.); jnp.tril(x); jnp.triu(x,1);
jnp.diag(v); jnp.diagonal(x); jnp.eye(x.shape[0]); jnp.outer(v,v);
jnp.kron(x[:20,:20],x[:20,:20]); jnp.trace(x); x@y.T; x@v; v@x.T; jnp.vdot(x,y);
jnp.inner(x,v); jnp.tensordot(x,y,((0,),(0,))); jnp.einsum('ij,ij->i',x,y);
jnp.einsum('ij,kj->ik',x,y); jnp.cross(x[:,:3],y[:,:3]); jnp.meshgrid(v,v)[0];
jnp.linspace(0,1,x.size); jnp.arange(x.size)*2.; jnp.full(x.shape,3.); jnp.triu_indices(50)[0];
jnp.nonzero(b,size=100)[0]; jnp.flatnonzero(b,size=100); jnp.argwhere(b,size=100);
jnp.interp(x,jnp.sort(v),v); jnp.convolve(v,v[:9],mode='same');
jnp.polyval(jnp.array([1.,2,3,4]),x); jnp.fft.fft(x); jnp.fft.rfft(x); jnp.fft.fft2(x);
jnp.abs(c); c*c; jnp.exp(c); c.real; jnp.angle(c); jnp.conj(c); jnp.sum(c,1); c@c.T;
jnp.sqrt(c); jnp.apply_along_axis(lambda a:a-a.mean(),1,x);
jnp.vectorize(lambda a,b:a*b+1)(x,y); sp.gammaln(p*5); sp.digamma(p*5); sp.erf(x);
sp.erfinv(p); sp.expit(x); sp.logit(p); sp.xlogy(p,p); sp.entr(p); sp.i0(x); sp.betaln(p,p);
sp.gammainc(p*3,p*2); sp.zeta(1.5+p,1+p); sp.ndtri(p); jax.nn.gelu(x); jax.nn.silu(x);
jax.nn.elu(x); jax.nn.softplus(x); jax.nn.relu6(x); jax.nn.leaky_relu(x);
jax.nn.one_hot(k%100,100); jax.nn.standardize(x); jax.nn.glu(x[:,:x.shape[1]//2*2]);
jnp.linalg.norm(x,axis=0); jnp.isclose(x,y); jnp.array_equal(x,y); jnp.allclose(x,x);
jnp.select([x>1,x>0],[x,y],0.); jnp.piecewise(x,[x<0],[lambda a:-a,lambda a:a]);
x.reshape(-1)[::-1]; x.ravel()[:-1].reshape(-1); jnp.moveaxis(x[None],0,2);
jnp.swapaxes(x.reshape(x.shape[0],-1,1),0,1); jnp.array_split(x,3)[1];
jnp.block([[x,y],[y,x]]); jnp.unwrap(x); jnp.packbits(b); jnp.unpackbits(u);
jnp.insert(v,3,1.); jnp.delete(v,3); jnp.append(v,v);
jax.random.normal(jax.random.key(0),x.shape); jax.random.uniform(jax.random.key(0),x.shape);
jax.random.permutation(jax.random.key(0),v); jax.random.categorical(jax.random.key(0),x);
jax.random.bernoulli(jax.random.key(0),p); jax.random.gamma(jax.random.key(0),p[:30,:30]);
jax.random.choice(jax.random.key(0),v,(100,));
jax.random.randint(jax.random.key(0),x.shape,0,10);
jax.grad(lambda x:jnp.sum(jnp.tanh(x)*y))(x);
jax.grad(lambda x:jnp.sum(jax.nn.softmax(x)*y))(x); jax.vmap(jnp.dot)(x,y);
jax.vmap(lambda a:jnp.sort(a)[:3])(x[:50]); jax.jvp(jnp.sin,(x,),(y,))[1];
jax.vmap(jnp.convolve,(0,None))(x[:30],v[:5])
"""
EXPRESSIONS = [e.strip() for e in TEXT.replace("\n", " ").split("; ") if e.strip()]


def arrays(n: int, m: int) -> dict[str, Any]:
    """x, y, v: normal; p: in (0, 1); i: integers; k: positions; b: booleans; h: to be bfloat16; u:
    bytes; c: complex."""
    rng = np.random.default_rng(0)
    x, y, h = (rng.normal(size=(n, m)).astype(np.float32) for _ in range(3))
    return {"x": x, "y": y, "i": rng.integers(0, 1000, size=(n, m)).astype(np.int32),
            "b": rng.random((n, m)) < 0.5, "v": rng.normal(size=m).astype(np.float32),
            "p": (rng.random((n, m)) * 0.98 + 0.01).astype(np.float32),
            "k": rng.integers(0, m, size=n).astype(np.int32), "h": h,
            "u": rng.integers(0, 255, size=(n, m)).astype(np.uint8),
            "c": (rng.normal(size=(n, m)) + 1j * rng.normal(size=(n, m))).astype(np.complex64)}
