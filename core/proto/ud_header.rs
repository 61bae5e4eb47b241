// SPDX-License-Identifier: GPL-2.0

//! Headers of datagrams that software builds: those of QP 1 on devices that leave
//! that to their drivers.
//!
//! A packet is local (LRH), or on Ethernet with or without a VLAN tag; then comes
//! a network header, perhaps UDP, and always BTH and DETH. IBTA volume 1, 7.7
//! (LRH), 8.3 (GRH), 9.2 (BTH), 9.3.1 (DETH); annexes A16 and A17 (RoCE); RFC 791,
//! RFC 768, IEEE 802.1Q. [`Header::new`] fills in what follows from the shape, the
//! driver the addresses, and [`Header::pack`] writes the bytes (`ib_ud_header_init`
//! and `ib_ud_header_pack`). The invariant CRC is not part of it.

use super::errno::Errno;
use super::gid::Gid;

const LRH: u32 = 8;
const GRH: u32 = 40;
const IPV4: u32 = 20;
const UDP: u32 = 8;
const BTH_AND_DETH: u32 = 20;
const ICRC: u32 = 4;

/// The longest header there is: Ethernet, VLAN, IPv6, UDP, BTH, DETH, immediate.
pub const MAX: usize = 8 + 14 + 4 + 40 + 8 + 12 + 8 + 4;

/// The network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// There is none.
    None,
    /// InfiniBand's global one, or RoCE version 1.
    Grh,
    /// IPv4; with UDP, RoCE version 2.
    Ipv4 {
        /// Whether UDP follows.
        udp: bool,
    },
    /// IPv6; with UDP, RoCE version 2.
    Ipv6 {
        /// Whether UDP follows.
        udp: bool,
    },
}

/// Which headers a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// InfiniBand's local route header.
    pub lrh: bool,
    /// Ethernet's.
    pub eth: bool,
    /// A VLAN tag.
    pub vlan: bool,
    /// The network header.
    pub network: Network,
    /// Immediate data.
    pub immediate: bool,
}

/// UDP without IP, or more payload than lengths can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible;

impl Impossible {
    /// The number for it.
    pub const fn errno(self) -> Errno {
        Errno::Einval
    }
}

impl Network {
    /// As the exported function's arguments have it: an IP version, which goes
    /// before a GRH, and 0 or any other number for none.
    pub fn from_args(grh: bool, ip_version: u32, udp: bool) -> Result<Self, Impossible> {
        match (ip_version, udp) {
            (4, udp) => Ok(Self::Ipv4 { udp }),
            (6, udp) => Ok(Self::Ipv6 { udp }),
            (_, true) => Err(Impossible),
            (0, false) if grh => Ok(Self::Grh),
            (_, false) => Ok(Self::None),
        }
    }

    const fn has_udp(self) -> bool {
        matches!(self, Self::Ipv4 { udp: true } | Self::Ipv6 { udp: true })
    }
}

/// Local route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lrh {
    /// Virtual lane, 4 bits.
    pub virtual_lane: u8,
    /// Version of the link, 4 bits.
    pub link_version: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// What follows, 2 bits.
    pub next_header: u8,
    /// To.
    pub dlid: u16,
    /// From here to the invariant CRC, in words of 4 bytes, 11 bits.
    pub packet_length: u16,
    /// From.
    pub slid: u16,
}

/// Ethernet, and the VLAN tag if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eth {
    /// To.
    pub dmac: [u8; 6],
    /// From.
    pub smac: [u8; 6],
    /// What follows: the VLAN tag, if there is one.
    pub ether_type: u16,
    /// Priority and VLAN.
    pub vlan_tag: u16,
    /// What follows the tag.
    pub vlan_type: u16,
}

/// Global route header, or IPv6's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grh {
    /// 6.
    pub ip_version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes that follow, the invariant CRC among them.
    pub payload_length: u16,
    /// What follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// From.
    pub sgid: Gid,
    /// To.
    pub dgid: Gid,
}

/// IPv4's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4 {
    /// Type of service.
    pub tos: u8,
    /// Bytes from here on, the invariant CRC among them.
    pub total_length: u16,
    /// Identification.
    pub id: u16,
    /// Flags and offset of a fragment.
    pub frag_off: u16,
    /// Time to live.
    pub ttl: u8,
    /// What follows.
    pub protocol: u8,
    /// Checksum, see [`Ipv4::checksum`].
    pub check: u16,
    /// From.
    pub saddr: [u8; 4],
    /// To.
    pub daddr: [u8; 4],
}

impl Ipv4 {
    /// The checksum of the header (RFC 791, 3.1; RFC 1071), with its own field
    /// taken as zero.
    pub fn checksum(&self) -> u16 {
        let [s0, s1, s2, s3] = self.saddr;
        let [d0, d1, d2, d3] = self.daddr;
        let words = [
            u16::from_be_bytes([0x45, self.tos]),
            self.total_length,
            self.id,
            self.frag_off,
            u16::from_be_bytes([self.ttl, self.protocol]),
            u16::from_be_bytes([s0, s1]),
            u16::from_be_bytes([s2, s3]),
            u16::from_be_bytes([d0, d1]),
            u16::from_be_bytes([d2, d3]),
        ];
        let sum: u32 = words.into_iter().map(u32::from).sum();
        // OVERFLOW, CAST: nine words have 20 bits, and folding twice leaves 16.
        let once = (sum & 0xffff) + (sum >> 16);
        let twice = (once & 0xffff) + (once >> 16);
        !(twice as u16)
    }
}

/// UDP's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// From.
    pub sport: u16,
    /// To.
    pub dport: u16,
    /// Bytes from here on, the invariant CRC among them.
    pub length: u16,
    /// Checksum; 0 for none.
    pub csum: u16,
}

/// Base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// What it is.
    pub opcode: u8,
    /// Whether the receiver is woken.
    pub solicited: bool,
    /// Migration state.
    pub mig_req: bool,
    /// Bytes between payload and invariant CRC, 2 bits.
    pub pad_count: u8,
    /// Version of the transport, 4 bits.
    pub version: u8,
    /// Partition key.
    pub pkey: u16,
    /// To which queue pair, 24 bits.
    pub dqpn: u32,
    /// Whether it is to be acknowledged.
    pub ack_req: bool,
    /// Number of the packet, 24 bits.
    pub psn: u32,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// The datagrams' key.
    pub qkey: u32,
    /// From which queue pair, 24 bits.
    pub sqpn: u32,
}

/// All headers of a datagram. Those that the shape has not are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which ones there are.
    pub shape: Shape,
    /// Local route.
    pub lrh: Lrh,
    /// Ethernet and VLAN.
    pub eth: Eth,
    /// Global route, or IPv6.
    pub grh: Grh,
    /// IPv4.
    pub ip4: Ipv4,
    /// UDP.
    pub udp: Udp,
    /// Base transport.
    pub bth: Bth,
    /// Datagram.
    pub deth: Deth,
    /// Immediate data, as on the wire.
    pub immediate: [u8; 4],
}

impl Header {
    /// The headers of so many bytes of payload.
    pub fn new(payload: u32, shape: Shape) -> Result<Self, Impossible> {
        let short = |len: u32| u16::try_from(len).map_err(|_| Impossible);
        let udp = if shape.network.has_udp() { UDP } else { 0 };
        let transport = (BTH_AND_DETH + ICRC)
            .checked_add(payload)
            .filter(|len| *len < 1 << 16)
            .ok_or(Impossible)?;
        // OVERFLOW: here and below: less than 64 KiB, and headers.
        let padded = transport.next_multiple_of(4);

        let mut lrh = Lrh::default();
        if shape.lrh {
            // Local packets have a GRH or nothing between LRH and BTH.
            let grh = shape.network == Network::Grh;
            lrh.next_header = if grh { 3 } else { 2 };
            // OVERFLOW: as above.
            let len = padded + LRH + if grh { GRH } else { 0 };
            lrh.packet_length = short(len / 4)?;
        }
        let mut eth = Eth::default();
        if shape.vlan {
            eth.ether_type = 0x8100;
        }
        let mut grh = Grh::default();
        if matches!(shape.network, Network::Grh | Network::Ipv6 { .. }) {
            grh.ip_version = 6;
            // OVERFLOW: as above.
            grh.payload_length = short(padded + udp)?;
            grh.next_header = if udp != 0 { 17 } else { 0x1b };
        }
        let mut ip4 = Ipv4::default();
        if matches!(shape.network, Network::Ipv4 { .. }) {
            // OVERFLOW: as above.
            ip4.total_length = short(transport + udp + IPV4)?;
            ip4.protocol = 17;
        }
        let mut length = 0;
        if udp != 0 {
            // OVERFLOW: as above.
            length = short(transport + UDP)?;
        }
        Ok(Self {
            shape,
            lrh,
            eth,
            grh,
            ip4,
            udp: Udp {
                length,
                ..Udp::default()
            },
            bth: Bth {
                // UD SEND only, with or without immediate data.
                opcode: if shape.immediate { 0x65 } else { 0x64 },
                pad_count: (payload.wrapping_neg() & 3) as u8,
                ..Bth::default()
            },
            deth: Deth::default(),
            immediate: [0; 4],
        })
    }

    /// Writes the headers to the beginning of `buf`; answers their bytes, or none
    /// if they do not fit.
    pub fn pack(&self, buf: &mut [u8]) -> Option<usize> {
        let mut out = Bits {
            buf,
            len: 0,
            partial: 0,
            bits: 0,
        };
        self.write(&mut out)?;
        Some(out.len)
    }

    fn write(&self, out: &mut Bits<'_>) -> Option<()> {
        let Header {
            shape,
            lrh,
            eth,
            grh,
            ip4,
            udp,
            bth,
            deth,
            immediate,
        } = self;
        if shape.lrh {
            out.put(4, lrh.virtual_lane)?;
            out.put(4, lrh.link_version)?;
            out.put(4, lrh.service_level)?;
            out.put(2, 0_u8)?;
            out.put(2, lrh.next_header)?;
            out.put(16, lrh.dlid)?;
            out.put(5, 0_u8)?;
            out.put(11, lrh.packet_length)?;
            out.put(16, lrh.slid)?;
        }
        if shape.eth {
            out.bytes(&eth.dmac)?;
            out.bytes(&eth.smac)?;
            out.put(16, eth.ether_type)?;
        }
        if shape.vlan {
            out.put(16, eth.vlan_tag)?;
            out.put(16, eth.vlan_type)?;
        }
        match shape.network {
            Network::None => {}
            Network::Grh | Network::Ipv6 { .. } => {
                out.put(4, grh.ip_version)?;
                out.put(8, grh.traffic_class)?;
                out.put(20, grh.flow_label)?;
                out.put(16, grh.payload_length)?;
                out.put(8, grh.next_header)?;
                out.put(8, grh.hop_limit)?;
                out.bytes(&grh.sgid.0)?;
                out.bytes(&grh.dgid.0)?;
            }
            Network::Ipv4 { .. } => {
                out.put(8, 0x45_u8)?;
                out.put(8, ip4.tos)?;
                out.put(16, ip4.total_length)?;
                out.put(16, ip4.id)?;
                out.put(16, ip4.frag_off)?;
                out.put(8, ip4.ttl)?;
                out.put(8, ip4.protocol)?;
                out.put(16, ip4.check)?;
                out.bytes(&ip4.saddr)?;
                out.bytes(&ip4.daddr)?;
            }
        }
        if shape.network.has_udp() {
            out.put(16, udp.sport)?;
            out.put(16, udp.dport)?;
            out.put(16, udp.length)?;
            out.put(16, udp.csum)?;
        }
        out.put(8, bth.opcode)?;
        out.put(1, bth.solicited)?;
        out.put(1, bth.mig_req)?;
        out.put(2, bth.pad_count)?;
        out.put(4, bth.version)?;
        out.put(16, bth.pkey)?;
        out.put(8, 0_u8)?;
        out.put(24, bth.dqpn)?;
        out.put(1, bth.ack_req)?;
        out.put(7, 0_u8)?;
        out.put(24, bth.psn)?;
        out.put(32, deth.qkey)?;
        out.put(8, 0_u8)?;
        out.put(24, deth.sqpn)?;
        if shape.immediate {
            out.bytes(immediate)?;
        }
        Some(())
    }
}

/// Writes bits one after the other, the most significant first.
struct Bits<'b> {
    buf: &'b mut [u8],
    len: usize,
    /// What has not made a byte yet, in its low bits.
    partial: u64,
    /// How many bits of `partial` that are; below 8.
    bits: u32,
}

impl Bits<'_> {
    /// The low `bits` of a value, 1 to 32.
    fn put(&mut self, bits: u32, value: impl Into<u32>) -> Option<()> {
        let mask = u64::MAX.checked_shr(64_u32.checked_sub(bits)?)?;
        self.partial = self.partial.checked_shl(bits)? | (u64::from(value.into()) & mask);
        let mut left = self.bits.checked_add(bits)?;
        while let Some(rest) = left.checked_sub(8) {
            left = rest;
            // CAST: The bits above were written before.
            *self.buf.get_mut(self.len)? = self.partial.checked_shr(left)? as u8;
            self.len = self.len.checked_add(1)?;
        }
        self.bits = left;
        Some(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        bytes.iter().try_for_each(|byte| self.put(8, *byte))
    }
}
