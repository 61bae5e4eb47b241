// SPDX-License-Identifier: GPL-2.0

//! Netlink messages of the port mapper (`iwpmd`), parsed and written.
//!
//! A message is a header of 16 bytes and attributes. All numbers have the byte order of the CPU.
//! Attributes are checked as `nlmsg_parse_deprecated` does: an unknown type is ignored, the last of
//! several attributes of a type counts, an attribute may be longer than its value. An attribute that
//! is missing is an error.
//!
//! Specification: `include/uapi/rdma/rdma_netlink.h`, `include/uapi/linux/netlink.h`.

use super::addr::Address;
use super::addr::STORAGE;
use super::Invalid;

/// Length of a message header.
pub const HEADER: usize = 16;
/// Length of the header of an attribute.
const ATTR: usize = 4;
/// Bits of an attribute's type that are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const ATTR_FLAGS: u16 = 0xc000;

/// Flag of a request (`NLM_F_REQUEST`).
const REQUEST: u16 = 1;
/// Flag of a message that others follow (`NLM_F_MULTI`).
const MULTI: u16 = 2;
/// Type of the message after the last of several ones (`NLMSG_DONE`).
const DONE: u16 = 3;

/// Number of the client (`RDMA_NL_IWCM`).
pub const CLIENT: u16 = 2;

/// Length of the name of a device, with its NUL (`IWPM_DEVNAME_SIZE`).
pub const DEVICE_NAME: usize = 32;
/// Length of the name of an interface, with its NUL (`IWPM_IFNAME_SIZE`).
pub const INTERFACE_NAME: usize = 16;
/// Length of the name of the library (`IWPM_ULIBNAME_SIZE`).
pub const LIBRARY_NAME: usize = 32;

/// Name by which the kernel and the port mapper know each other.
pub const LIBRARY: &[u8] = b"iWarpPortMapperUser";

/// Operations (`RDMA_NL_IWPM_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Op {
    /// Who is the port mapper?
    RegisterPid = 0,
    /// Maps a local address.
    AddMapping = 1,
    /// Maps a local address, and asks the peer's port mapper for the mapping of a remote one.
    QueryMapping = 2,
    /// Removes the mapping of a local address.
    RemoveMapping = 3,
    /// Addresses of a peer that is going to connect.
    RemoteInfo = 4,
    /// A request has failed.
    HandleError = 5,
    /// Asks for all mappings; a mapping.
    MapInfo = 6,
    /// Number of mappings.
    MapInfoNum = 7,
    /// The port mapper is there.
    Hello = 8,
}

/// Message under construction, of at most `N` bytes.
pub struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
    /// Start of the message whose header was written last.
    start: usize,
}

/// The message does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<const N: usize> Default for Writer<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
            start: 0,
        }
    }
}

impl<const N: usize> Writer<N> {
    /// Returns what was written.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Bytes that are left.
    pub fn room(&self) -> usize {
        N.saturating_sub(self.len)
    }

    /// Starts a message.
    fn begin(&mut self, kind: u16, flags: u16, seq: u32) -> Result<(), Full> {
        let start = self.len;
        let header = self.grow(HEADER)?;
        for (at, part) in [(4, kind.to_ne_bytes()), (6, flags.to_ne_bytes())] {
            put(header, at, &part);
        }
        put(header, 8, &seq.to_ne_bytes());
        self.start = start;
        self.note_length();
        Ok(())
    }

    /// Appends an attribute to the message.
    fn attr(&mut self, kind: u16, value: &[u8]) -> Result<(), Full> {
        let len = value.len().checked_add(ATTR).ok_or(Full)?;
        let number = u16::try_from(len).map_err(|_| Full)?;
        let attr = self.grow(len.checked_next_multiple_of(4).ok_or(Full)?)?;
        put(attr, 0, &number.to_ne_bytes());
        put(attr, 2, &kind.to_ne_bytes());
        put(attr, ATTR, value);
        self.note_length();
        Ok(())
    }

    /// Writes the length of the message into its header.
    fn note_length(&mut self) {
        let len = self.len.saturating_sub(self.start);
        // CAST: A message is not longer than `N`, which is far below 4 GiB.
        let len = (len as u32).to_ne_bytes();
        let start = self.start;
        put(&mut self.bytes, start, &len);
    }

    fn grow(&mut self, by: usize) -> Result<&mut [u8], Full> {
        let from = self.len;
        let to = from.checked_add(by).ok_or(Full)?;
        let new = self.bytes.get_mut(from..to).ok_or(Full)?;
        self.len = to;
        Ok(new)
    }

    /// Removes all after the first `len` bytes.
    fn cut(&mut self, len: usize) {
        if let Some(rest) = self.bytes.get_mut(len..self.len) {
            rest.fill(0);
            self.len = len;
        }
    }
}

/// Copies `part` to `at`; `to` has room for it.
fn put(to: &mut [u8], at: usize, part: &[u8]) {
    for (to, byte) in to.iter_mut().skip(at).zip(part) {
        *to = *byte;
    }
}

const fn number(op: Op) -> u16 {
    CLIENT << 10 | op as u16
}

/// Room for one request.
pub const REQUEST_SIZE: usize = 512;
/// A request to the port mapper.
pub type Request = Writer<REQUEST_SIZE>;

fn request(op: Op, seq: u32) -> Result<Request, Full> {
    let mut message = Request::default();
    message.begin(number(op), REQUEST, seq)?;
    Ok(message)
}

/// Names that a device has in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Name of the device, padded with NULs; at least the last byte is one.
    pub device: [u8; DEVICE_NAME],
    /// Name of the interface, padded in the same way.
    pub interface: [u8; INTERFACE_NAME],
}

impl Names {
    /// Creates the names.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if one is too long.
    pub fn new(device: &[u8], interface: &[u8]) -> Result<Self, Invalid> {
        Ok(Self {
            device: padded(device)?,
            interface: padded(interface)?,
        })
    }
}

/// A string with NULs up to the length `N`; at least one.
fn padded<const N: usize>(text: &[u8]) -> Result<[u8; N], Invalid> {
    if text.len() >= N {
        return Err(Invalid);
    }
    let mut name = [0; N];
    put(&mut name, 0, text);
    Ok(name)
}

/// Writes the question who the port mapper is. `echo` is the last sequence number of the mapper.
///
/// # Errors
///
/// [`Full`], which does not happen with these sizes.
pub fn register(seq: u32, echo: u32, names: &Names) -> Result<Request, Full> {
    let mut message = request(Op::RegisterPid, seq)?;
    message.attr(1, &echo.to_ne_bytes())?;
    message.attr(2, &names.interface)?;
    message.attr(3, &names.device)?;
    let library: [u8; LIBRARY_NAME] = padded(LIBRARY).map_err(|Invalid| Full)?;
    message.attr(4, &library)?;
    Ok(message)
}

/// Writes a request to map `local`. `flags` is for port mappers that know them.
///
/// # Errors
///
/// As [`register`].
pub fn add(seq: u32, echo: u32, local: &Address, flags: Option<u32>) -> Result<Request, Full> {
    let mut message = request(Op::AddMapping, seq)?;
    message.attr(1, &echo.to_ne_bytes())?;
    message.attr(2, &local.storage())?;
    if let Some(flags) = flags {
        message.attr(3, &flags.to_ne_bytes())?;
    }
    Ok(message)
}

/// Writes a request to map `local`, and to find the mapping of `remote`.
///
/// # Errors
///
/// As [`register`].
pub fn query(
    seq: u32,
    echo: u32,
    local: &Address,
    remote: &Address,
    flags: Option<u32>,
) -> Result<Request, Full> {
    let mut message = request(Op::QueryMapping, seq)?;
    message.attr(1, &echo.to_ne_bytes())?;
    message.attr(2, &local.storage())?;
    message.attr(3, &remote.storage())?;
    if let Some(flags) = flags {
        message.attr(4, &flags.to_ne_bytes())?;
    }
    Ok(message)
}

/// Writes the removal of the mapping of `local`.
///
/// # Errors
///
/// As [`register`].
pub fn remove(seq: u32, echo: u32, local: &Address) -> Result<Request, Full> {
    let mut message = request(Op::RemoveMapping, seq)?;
    message.attr(1, &echo.to_ne_bytes())?;
    message.attr(2, &local.storage())?;
    Ok(message)
}

/// Writes the kernel's version of the protocol.
///
/// # Errors
///
/// As [`register`].
pub fn hello(seq: u32, version: u16) -> Result<Request, Full> {
    let mut message = request(Op::Hello, seq)?;
    message.attr(1, &version.to_ne_bytes())?;
    Ok(message)
}

/// Writes the number of mappings that were sent.
///
/// # Errors
///
/// As [`register`].
pub fn count(seq: u32, mappings: u32) -> Result<Request, Full> {
    let mut message = request(Op::MapInfoNum, seq)?;
    message.attr(1, &0u32.to_ne_bytes())?;
    message.attr(2, &mappings.to_ne_bytes())?;
    Ok(message)
}

/// A mapping of a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Address that the consumer uses.
    pub local: Address,
    /// Address that the provider uses.
    pub mapped: Address,
    /// Flags of the request.
    pub flags: u32,
}

/// Room for several mappings.
pub const BATCH_SIZE: usize = 3072;

/// Several mappings, for one buffer.
#[derive(Default)]
pub struct Batch {
    message: Writer<BATCH_SIZE>,
    count: u32,
}

impl Batch {
    /// Appends a mapping. Room for [`end`](Self::end) is left.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room for it.
    pub fn put(&mut self, mapping: &Mapping, with_flags: bool) -> Result<(), Full> {
        let before = self.message.len;
        let result = self.append(mapping, with_flags);
        if result.is_err() || self.message.room() < HEADER {
            self.message.cut(before);
            return Err(Full);
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    fn append(&mut self, mapping: &Mapping, with_flags: bool) -> Result<(), Full> {
        self.message.begin(number(Op::MapInfo), MULTI, 0)?;
        self.message.attr(1, &mapping.local.storage())?;
        self.message.attr(2, &mapping.mapped.storage())?;
        if with_flags {
            self.message.attr(3, &mapping.flags.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Number of mappings.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the mappings with the end of the list.
    pub fn end(&mut self) -> &[u8] {
        // `put` leaves room.
        let _: Result<(), Full> = self.message.begin(DONE, MULTI, 0);
        self.message.bytes()
    }
}

/// A message of the port mapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Answer to a request.
    Answer {
        /// Sequence number of the request.
        to: u32,
        /// What it says.
        answer: Answer,
    },
    /// Addresses of a peer that is going to connect.
    Remote(Remote),
    /// Asks for all mappings.
    MapInfo {
        /// Whether it has the right name, and a version that is supported.
        known: bool,
    },
    /// How many mappings arrived.
    MapInfoNum {
        /// Number that the kernel has sent.
        sent: u32,
        /// Number that the mapper has stored.
        stored: u32,
    },
    /// The port mapper is there, with a version of the protocol.
    Hello(u16),
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`register`].
    Registered {
        /// Name of the device in the request.
        device: [u8; DEVICE_NAME],
        /// Whether the mapper has the right name.
        named: bool,
        /// Version of the protocol.
        version: u16,
        /// Error of the mapper, or 0.
        error: u16,
    },
    /// To [`add`].
    Added {
        /// Address in the request.
        local: Address,
        /// Its mapping.
        mapped: Address,
        /// Error of the mapper, or 0.
        error: u16,
    },
    /// To [`query`].
    Found {
        /// Addresses in the request, and their mappings.
        remote: Remote,
        /// Error of the mapper, or 0.
        error: u16,
    },
    /// To any request: it has failed.
    Failed(u16),
}

/// Addresses of both ends, and their mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Local address.
    pub local: Address,
    /// Remote address.
    pub remote: Address,
    /// Mapping of the local address.
    pub mapped_local: Address,
    /// Mapping of the remote address.
    pub mapped_remote: Address,
}

impl Remote {
    /// Returns whether each mapping has the family of its address.
    pub fn families_agree(&self) -> bool {
        self.mapped_local.family() == self.local.family()
            && self.mapped_remote.family() == self.remote.family()
    }
}

/// Parses a message with its header, for operation `op`.
///
/// # Errors
///
/// [`Invalid`] if it is too short, an attribute is missing, too short or not terminated, or the
/// port mapper does not send such messages.
pub fn parse(op: Op, message: &[u8]) -> Result<Message, Invalid> {
    let body = message.get(HEADER..).ok_or(Invalid)?;
    Ok(match op {
        Op::RegisterPid => {
            let [seq, device, name, version, error] = attrs(body)?;
            Message::Answer {
                to: u32_of(seq)?,
                answer: Answer::Registered {
                    device: padded(text(device, DEVICE_NAME)?)?,
                    named: text(name, LIBRARY_NAME)? == LIBRARY,
                    version: u16_of(version)?,
                    error: u16_of(error)?,
                },
            }
        }
        Op::AddMapping => {
            let [seq, local, mapped, error] = attrs(body)?;
            Message::Answer {
                to: u32_of(seq)?,
                answer: Answer::Added {
                    local: address(local)?,
                    mapped: address(mapped)?,
                    error: u16_of(error)?,
                },
            }
        }
        Op::QueryMapping => {
            let (seq, remote, error) = remote(body)?;
            Message::Answer {
                to: seq,
                answer: Answer::Found { remote, error },
            }
        }
        Op::RemoteInfo => Message::Remote(remote(body)?.1),
        Op::HandleError => {
            let [seq, code] = attrs(body)?;
            Message::Answer {
                to: u32_of(seq)?,
                answer: Answer::Failed(u16_of(code)?),
            }
        }
        Op::MapInfo => {
            let [name, version] = attrs(body)?;
            let named = text(name, LIBRARY_NAME)? == LIBRARY;
            Message::MapInfo {
                known: named && u16_of(version)? >= super::mapper::VERSION_MIN,
            }
        }
        Op::MapInfoNum => {
            let [seq, sent, stored] = attrs(body)?;
            u32_of(seq)?;
            Message::MapInfoNum {
                sent: u32_of(sent)?,
                stored: u32_of(stored)?,
            }
        }
        Op::Hello => {
            let [version] = attrs(body)?;
            Message::Hello(u16_of(version)?)
        }
        Op::RemoveMapping => return Err(Invalid),
    })
}

/// Sequence number and sender of a message, from its header.
pub fn header(message: &[u8]) -> Option<(u32, u32)> {
    let header: &[u8; HEADER] = message.first_chunk()?;
    let (_, numbers) = header.split_last_chunk::<8>()?;
    let (seq, pid) = numbers.split_first_chunk::<4>()?;
    Some((
        u32::from_ne_bytes(*seq),
        u32::from_ne_bytes(*pid.first_chunk()?),
    ))
}

fn remote(body: &[u8]) -> Result<(u32, Remote, u16), Invalid> {
    let [seq, local, remote, mapped_local, mapped_remote, error] = attrs(body)?;
    let remote = Remote {
        local: address(local)?,
        remote: address(remote)?,
        mapped_local: address(mapped_local)?,
        mapped_remote: address(mapped_remote)?,
    };
    Ok((u32_of(seq)?, remote, u16_of(error)?))
}

/// Finds the attributes of the types 1 to `N`.
fn attrs<const N: usize>(mut body: &[u8]) -> Result<[&[u8]; N], Invalid> {
    let mut found = [None; N];
    // Bytes behind the last whole attribute are ignored.
    while let Some((value, kind, rest)) = attr(body) {
        if let Some(place) = usize::from(kind)
            .checked_sub(1)
            .and_then(|index| found.get_mut(index))
        {
            *place = Some(value);
        }
        body = rest;
    }
    let mut all = [&[][..]; N];
    for (to, value) in all.iter_mut().zip(found) {
        *to = value.ok_or(Invalid)?;
    }
    Ok(all)
}

/// Splits the first attribute off: its value, its type, what follows.
fn attr(body: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    let (len, rest) = body.split_first_chunk::<2>()?;
    let kind = rest.first_chunk::<2>()?;
    let len = usize::from(u16::from_ne_bytes(*len));
    let value = body.get(ATTR..len)?;
    let rest = body.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    Some((value, u16::from_ne_bytes(*kind) & !ATTR_FLAGS, rest))
}

fn u32_of(value: &[u8]) -> Result<u32, Invalid> {
    let bytes = value.first_chunk().ok_or(Invalid)?;
    Ok(u32::from_ne_bytes(*bytes))
}

fn u16_of(value: &[u8]) -> Result<u16, Invalid> {
    let bytes = value.first_chunk().ok_or(Invalid)?;
    Ok(u16::from_ne_bytes(*bytes))
}

fn address(value: &[u8]) -> Result<Address, Invalid> {
    const { assert!(STORAGE == 128) };
    Address::read(value).ok_or(Invalid)
}

/// A string that ends within its first `max` bytes, and within the attribute, without its NUL.
fn text(value: &[u8], max: usize) -> Result<&[u8], Invalid> {
    let len = value.iter().take(max).position(|byte| *byte == 0);
    // As `NLA_NUL_STRING` of the kernel: apart from one last NUL, the attribute has room for `max -
    // 1` bytes.
    let whole = value.strip_suffix(&[0]).unwrap_or(value);
    if whole.len() >= max {
        return Err(Invalid);
    }
    value.get(..len.ok_or(Invalid)?).ok_or(Invalid)
}
