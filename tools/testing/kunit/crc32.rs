// SPDX-License-Identifier: GPL-2.0

//! `rdma::crc32`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_crc32)]
mod tests {
    use rdma::crc32::crc32_le;
    use rdma::crc32::crc32_le_raw;

    #[test]
    fn known_answer() {
        // The check value that CRC catalogues give for CRC-32/ISO-HDLC.
        assert_eq!(!crc32_le(!0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32_le(!0, b""), !0);
    }

    #[test]
    fn pieces_equal_the_whole() {
        let data = b"The invariant CRC is made in pieces: masked headers, then payload.";
        let whole = crc32_le(!0, data);
        for cut in 0..data.len() {
            let (head, tail) = data.split_at(cut);
            assert_eq!(crc32_le(crc32_le(!0, head), tail), whole);
        }
        // SAFETY: The array is readable.
        let raw = unsafe { crc32_le_raw(!0, data.as_ptr(), data.len()) };
        assert_eq!(raw, whole);
    }
}
