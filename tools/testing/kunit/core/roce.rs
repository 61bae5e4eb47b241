// SPDX-License-Identifier: GPL-2.0

//! `core/proto/roce` against the loaded core, over headers that are nearly right.

use kernel::prelude::kunit_tests;

#[kunit_tests(core_roce)]
mod tests {
    use crate::peer;
    use crate::proto::roce::ends;
    use crate::proto::roce::header;
    use crate::proto::roce::Header;

    /// Bytes of chance, with versions and lengths that are often those of IP.
    fn area(rng: &mut peer::Rng) -> [u8; 40] {
        let mut area = [0; 40];
        for byte in &mut area {
            *byte = rng.any() as u8;
        }
        if rng.any() % 4 != 0 {
            area[0] = 0x60 | (area[0] & 0xf);
        }
        if rng.any() % 4 != 0 {
            area[20] = 0x45;
        }
        if rng.any() % 2 == 0 {
            mend(&mut area);
        }
        area
    }

    /// Makes the checksum of the second half right.
    fn mend(area: &mut [u8; 40]) {
        area[30] = 0;
        area[31] = 0;
        let mut sum: u32 = area
            .chunks_exact(2)
            .skip(10)
            .map(|pair| {
                pair.iter()
                    .fold(0, |word, byte| word << 8 | u32::from(*byte))
            })
            .sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let [high, low] = (!(sum as u16)).to_be_bytes();
        area[30] = high;
        area[31] = low;
    }

    #[test]
    fn versions_and_gids() {
        let mut rng = peer::Rng::new(0x726f_6365);
        for _ in 0..20_000 {
            let area = area(&mut rng);
            let ours = match header(&area) {
                Some(Header::Ipv4) => 4,
                Some(Header::Ipv6) => 6,
                None => 0,
            };
            assert_eq!(ours, peer::header_version(&area));
        }
        for _ in 0..1_000 {
            let area = area(&mut rng);
            // `enum rdma_network_type`: IB, RoCE v1, IPv4, IPv6.
            for network in 0..6 {
                let kind = match network {
                    0 | 1 | 3 => Some(Header::Ipv6),
                    2 => Some(Header::Ipv4),
                    _ => None,
                };
                let ours = kind.map(|kind| ends(&area, kind));
                let peers = peer::gids(&area, network).ok();
                assert_eq!(ours.map(|ends| (ends.source.0, ends.destination.0)), peers);
            }
        }
    }
}
