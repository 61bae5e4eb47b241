// SPDX-License-Identifier: GPL-2.0

//! Decisions, taken from an input one by one.

/// The rest of an input. After its end all is zero.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// All of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `len` bytes.
    pub fn slice(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len.min(self.0.len()));
        self.0 = tail;
        head
    }

    /// Exactly so many.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut to = [0; N];
        let from = self.slice(N);
        to[..from.len()].copy_from_slice(from);
        to
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `n`, which is 1 to 256.
    pub fn below(&mut self, n: u32) -> u32 {
        u32::from(self.u8()) % n
    }

    /// Yes or no.
    pub fn flip(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.u8()) % from.len()]
    }

    /// A number that is often one at which something may break.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            n @ 0..=127 => u64::from(n),
            n @ 128..=223 => 0x1000 + u64::from(n - 128) * 4,
            n @ 224..=239 => 1 << ((n - 224) * 4 + 3),
            n @ 240..=247 => u64::MAX - u64::from(n - 240),
            n @ 248..=251 => u64::from(u32::MAX) + u64::from(n) - 250,
            _ => self.u64(),
        }
    }

    /// The same in 32 bits.
    pub fn number32(&mut self) -> u32 {
        self.number() as u32
    }
}
