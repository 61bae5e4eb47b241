// SPDX-License-Identifier: GPL-2.0

//! `rdma::shared_ring`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_shared_ring)]
mod tests {
    use kernel::page::PAGE_SIZE;
    use kernel::prelude::*;
    use rdma::shared_ring::SharedBuf;

    #[test]
    fn size_is_whole_pages_of_zeroes() -> Result {
        assert!(SharedBuf::new(0).is_err());
        assert!(SharedBuf::new(usize::MAX).is_err());
        for (asked, got) in [(1, 1), (PAGE_SIZE, 1), (PAGE_SIZE + 1, 2)] {
            let buf = SharedBuf::new(asked)?;
            assert_eq!(buf.len(), got * PAGE_SIZE);
            assert!(!buf.is_empty());
            for offset in (0..buf.len()).step_by(8) {
                assert_eq!(buf.read::<u64>(offset), Some(0));
            }
        }
        Ok(())
    }

    #[test]
    fn words_are_aligned_and_inside() -> Result {
        let buf = SharedBuf::new(PAGE_SIZE)?;
        let last = buf.len() - 4;
        for offset in [0, 4, 128, last] {
            buf.store_release_u32(offset, 0xdead_beef)?;
            assert_eq!(buf.load_acquire_u32(offset), Some(0xdead_beef));
        }
        for offset in [1, 2, 3, last + 1, last + 4, usize::MAX - 3, usize::MAX] {
            assert_eq!(buf.load_acquire_u32(offset), None);
            assert!(buf.store_release_u32(offset, 1) == Err(EINVAL));
        }
        assert_eq!(buf.load_acquire_u32(8), Some(0));
        Ok(())
    }

    #[test]
    fn bytes_go_in_and_out_at_every_alignment() -> Result {
        let buf = SharedBuf::new(PAGE_SIZE)?;
        let mut pattern = [0; 67];
        for (i, byte) in pattern.iter_mut().enumerate() {
            *byte = u8::try_from(i + 1)?;
        }
        for offset in 0..24 {
            for len in [0, 1, 7, 8, 9, 63, 64, 67] {
                let wanted = pattern.get(..len).ok_or(EINVAL)?;
                let mut zero = [0; 128];
                buf.write_bytes(0, &zero)?;
                buf.write_bytes(offset, wanted)?;
                let mut got = [0; 67];
                let got = got.get_mut(..len).ok_or(EINVAL)?;
                buf.read_bytes(offset, got)?;
                assert!(got == wanted);
                // Nothing beside was touched.
                buf.read_bytes(0, &mut zero)?;
                let touched = zero.iter().filter(|&&byte| byte != 0).count();
                assert_eq!(touched, len);
            }
        }
        Ok(())
    }

    #[test]
    fn ranges_are_checked() -> Result {
        let buf = SharedBuf::new(PAGE_SIZE)?;
        let end = buf.len();
        let mut bytes = [1; 16];
        assert!(buf.read_bytes(end - 16, &mut bytes).is_ok());
        assert!(buf.write_bytes(end, &[]).is_ok());
        for offset in [end - 15, end, end + 1, usize::MAX - 8, usize::MAX] {
            assert!(buf.read_bytes(offset, &mut bytes) == Err(EINVAL));
            assert!(buf.write_bytes(offset, &bytes) == Err(EINVAL));
            assert!(buf.read::<u64>(offset.saturating_add(8)).is_none());
        }
        assert!(buf.write_bytes(end + 1, &[]) == Err(EINVAL));
        Ok(())
    }

    #[test]
    fn values_go_in_and_out() -> Result {
        let buf = SharedBuf::new(PAGE_SIZE)?;
        buf.write(24, &[1u32, 2, 3, 4])?;
        assert_eq!(buf.read::<[u32; 4]>(24), Some([1, 2, 3, 4]));
        assert_eq!(buf.load_acquire_u32(28), Some(2));
        buf.store_release_u32(32, 7)?;
        assert_eq!(buf.read::<[u32; 4]>(24), Some([1, 2, 7, 4]));
        Ok(())
    }
}
