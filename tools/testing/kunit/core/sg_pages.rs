// SPDX-License-Identifier: GPL-2.0

//! `core/proto/sg_pages` against the loaded core, where there is room for all pages. (Where
//! there is not, the C core says that it took a page less than it did.)

use kernel::prelude::kunit_tests;

#[kunit_tests(core_sg_pages)]
mod tests {
    use crate::peer;
    use crate::proto::sg_pages::take;
    use crate::proto::sg_pages::Entry;
    use kernel::prelude::*;

    #[test]
    fn random_lists() -> Result {
        let mut rng = peer::Rng::new(0x7367);
        for _ in 0..2_000 {
            let size = 1 << (6 + rng.any() % 8);
            let mut list = KVec::new();
            let mut addr = u64::from(rng.any() % 0x10_0000);
            for _ in 0..1 + rng.any() % 6 {
                let len = 1 + rng.any() % (4 * size);
                list.push((addr, len), GFP_KERNEL)?;
                addr += u64::from(len);
                match rng.any() % 4 {
                    0 => addr += u64::from(rng.any() % size),
                    1 | 2 => addr = (addr | u64::from(size - 1)) + 1,
                    _ => {}
                }
            }
            let offset = rng.any() % (list.first().map_or(0, |first| first.1) + 1);
            let mut pages = KVec::new();
            let entries = list.iter().map(|&(addr, len)| Entry { addr, len });
            let Ok(ours) = take(entries, offset, size, |page| pages.push(page, GFP_KERNEL)) else {
                return Err(EINVAL);
            };
            let (taken, left, length, peers) = peer::sg_to_pages(&list, offset, size)?;
            assert_eq!(ours.entries as i32, taken);
            assert_eq!(ours.offset, left);
            assert_eq!(ours.length, length);
            assert_eq!(&pages[..], &peers[..]);
        }
        Ok(())
    }
}
