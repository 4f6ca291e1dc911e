//! Numbers that look random and are not: each is a function of a seed, of what it is for, and of its index. So a chunk
//! is as long under one policy as under another, and a run can be told again from its seed on any machine.

/// What numbers are for.
#[derive(Debug, Clone, Copy)]
pub enum Stream {
    /// How long a chunk is.
    Length,
    /// Whether an attempt fails.
    Fails,
    /// Where in its life a failing attempt dies.
    Dies,
    /// One of the parts of the noise on what arrives.
    Noise(u64),
    /// How long another load stays on or off.
    OtherLoad(u64),
}

impl Stream {
    const fn code(self) -> u64 {
        match self {
            Self::Length => 1,
            Self::Fails => 2,
            Self::Dies => 3,
            Self::Noise(part) => 1_000 + part,
            Self::OtherLoad(which) => 1_000_000 + which,
        }
    }
}

/// The draws of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Draw(pub u64);

impl Draw {
    /// Evenly from 0 (included) to 1 (excluded).
    pub fn even(self, stream: Stream, index: u64) -> f64 {
        let bits = scatter(scatter(scatter(self.0) ^ stream.code()) ^ index);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From the standard normal distribution, by the method of Box and Muller.
    pub fn normal(self, stream: Stream, index: u64) -> f64 {
        let index = index.wrapping_mul(2);
        // 0 has no logarithm.
        let radius = (-2.0 * self.even(stream, index).max(f64::MIN_POSITIVE).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.even(stream, index.wrapping_add(1))).cos()
    }
}

/// Neighbours become far apart: the finalizer of SplitMix64.
const fn scatter(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_the_same_every_time_and_streams_and_seeds_differ() {
        let draw = Draw(7);
        assert_eq!(draw.even(Stream::Length, 3), Draw(7).even(Stream::Length, 3));
        let others = [
            draw.even(Stream::Length, 4),
            draw.even(Stream::Fails, 3),
            Draw(8).even(Stream::Length, 3),
        ];
        assert!(others.iter().all(|o| *o != draw.even(Stream::Length, 3)));
    }

    #[test]
    fn even_draws_are_even_and_normal_ones_have_mean_0_and_deviation_1() {
        let n = 20_000;
        let mean = |draw: &dyn Fn(u64) -> f64| (0..n).map(draw).sum::<f64>() / n as f64;
        let even = mean(&|i| Draw(1).even(Stream::Length, i));
        assert!((even - 0.5).abs() < 0.01, "{even}");
        let normal = |i| Draw(1).normal(Stream::Length, i);
        let (first, second) = (mean(&normal), mean(&|i| normal(i).powi(2)));
        assert!(
            first.abs() < 0.03 && (second - 1.0).abs() < 0.04,
            "{first} {second}"
        );
    }
}
