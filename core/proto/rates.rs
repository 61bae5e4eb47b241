// SPDX-License-Identifier: GPL-2.0

//! Rates of ports and paths.
//!
//! The rate of a path is an enumerated value (`enum ib_rate`, IBTA 15.2.5.16), which is not ordered
//! by speed. The rate of a port is its width, in lanes, times the speed of a lane. Values are those
//! of `include/rdma/ib_verbs.h`; the data rate of a lane also depends on the encoding of the link.

/// A rate of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    /// `enum ib_rate`.
    raw: u32,
    /// The rate in units of 2.5 Gb/s, rounded down.
    mult: u32,
    /// The rate in Mb/s.
    mbps: u32,
}

const fn rate(raw: u32, mult: u32, mbps: u32) -> Rate {
    Rate { raw, mult, mbps }
}

/// All rates, in order of speed. 24 is not assigned; 1 is reserved.
const RATES: &[Rate] = &[
    rate(2, 1, 2_500),
    rate(5, 2, 5_000),
    rate(3, 4, 10_000),
    rate(11, 6, 14_062),
    rate(6, 8, 20_000),
    rate(15, 10, 25_781),
    rate(19, 11, 28_125),
    rate(4, 12, 30_000),
    rate(7, 16, 40_000),
    rate(20, 20, 53_125),
    rate(12, 22, 56_250),
    rate(8, 24, 60_000),
    rate(9, 32, 80_000),
    rate(16, 40, 103_125),
    rate(13, 45, 112_500),
    rate(10, 48, 120_000),
    rate(14, 67, 168_750),
    rate(17, 80, 206_250),
    rate(18, 120, 309_375),
    rate(21, 160, 425_000),
    rate(22, 240, 637_500),
    rate(23, 320, 850_000),
    rate(25, 640, 1_700_000),
];

/// The path uses the current rate of the port (`IB_RATE_PORT_CURRENT`).
pub const PORT_CURRENT: u32 = 0;

fn by_raw(raw: u32) -> Option<&'static Rate> {
    RATES.iter().find(|rate| rate.raw == raw)
}

/// The rate in units of 2.5 Gb/s; `None` if unknown (`ib_rate_to_mult`, which returns -1).
pub fn mult(raw: u32) -> Option<u32> {
    by_raw(raw).map(|rate| rate.mult)
}

/// The rate in Mb/s; `None` if unknown (`ib_rate_to_mbps`, which returns -1).
pub fn mbps(raw: u32) -> Option<u32> {
    by_raw(raw).map(|rate| rate.mbps)
}

/// The rate of `mult` units of 2.5 Gb/s (`mult_to_ib_rate`), or [`PORT_CURRENT`] if there is none.
pub fn from_mult(mult: u32) -> u32 {
    RATES
        .iter()
        .find(|rate| rate.mult == mult)
        .map_or(PORT_CURRENT, |rate| rate.raw)
}

/// Width of a port in lanes (`enum ib_port_width`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// One lane.
    X1 = 1,
    /// Four lanes.
    X4 = 2,
    /// Eight lanes.
    X8 = 4,
    /// Twelve lanes.
    X12 = 8,
    /// Two lanes.
    X2 = 16,
}

impl Width {
    /// The width of this number.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            1 => Self::X1,
            2 => Self::X4,
            4 => Self::X8,
            8 => Self::X12,
            16 => Self::X2,
            _ => return None,
        })
    }

    /// Number of lanes.
    pub const fn lanes(self) -> u32 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }

    const fn of_lanes(lanes: u32) -> Self {
        match lanes {
            2 => Self::X2,
            4 => Self::X4,
            8 => Self::X8,
            12 => Self::X12,
            _ => Self::X1,
        }
    }
}

/// Speed of a lane (`enum ib_port_speed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Speed {
    /// 2.5 Gb/s.
    Sdr = 1,
    /// 5 Gb/s.
    Ddr = 2,
    /// 10 Gb/s.
    Qdr = 4,
    /// 10 Gb/s.
    Fdr10 = 8,
    /// 14 Gb/s.
    Fdr = 16,
    /// 25 Gb/s.
    Edr = 32,
    /// 50 Gb/s.
    Hdr = 64,
    /// 100 Gb/s.
    Ndr = 128,
    /// 200 Gb/s.
    Xdr = 256,
}

/// Converts the speed of an Ethernet link to InfiniBand speed and width. `lanes` is zero if the
/// link does not report its number of lanes; the result is then a common combination of at least
/// that speed, up to the highest one known.
pub fn of_ethernet(mbps: u32, lanes: u32) -> (Speed, Width) {
    let Some(per_lane) = mbps.checked_div(lanes) else {
        return match mbps {
            0..=1_000 => (Speed::Sdr, Width::X1),
            1_001..=10_000 => (Speed::Fdr10, Width::X1),
            10_001..=20_000 => (Speed::Ddr, Width::X4),
            20_001..=25_000 => (Speed::Edr, Width::X1),
            25_001..=40_000 => (Speed::Fdr10, Width::X4),
            40_001..=50_000 => (Speed::Edr, Width::X2),
            50_001..=100_000 => (Speed::Edr, Width::X4),
            100_001..=200_000 => (Speed::Hdr, Width::X4),
            _ => (Speed::Ndr, Width::X4),
        };
    };
    let speed = match per_lane {
        5_000 => Speed::Ddr,
        10_000 => Speed::Fdr10,
        14_000 => Speed::Fdr,
        25_000 => Speed::Edr,
        50_000 => Speed::Hdr,
        100_000 => Speed::Ndr,
        _ => Speed::Sdr,
    };
    (speed, Width::of_lanes(lanes))
}
