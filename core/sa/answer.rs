// SPDX-License-Identifier: GPL-2.0

//! Kinds of queries, and delivery of their responses.

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

use super::convert::guids_to_c;
use super::convert::path_to_c;
use super::convert::service_to_c;
use super::edge::user::Callback;
use super::edge::user::GuidInfoDone;
use super::edge::user::PathDone;
use super::edge::user::ServiceDone;
use super::group::Group;
use super::port::Port;
use crate::mad::client;
use crate::proto::sa::datagram::Header;
use crate::proto::sa::datagram::DATAGRAM;
use crate::proto::sa::local;
use crate::proto::sa::member::Member;
use crate::proto::sa::path::Link;
use crate::proto::sa::path::OpaLink;
use crate::proto::sa::path::Path;
use crate::proto::sa::record::ClassPortInfo;
use crate::proto::sa::record::GuidInfo;
use crate::proto::sa::record::Service;
use crate::proto::sa::wire::Parts;
use crate::proto::sa::wire::Record;
use crate::proto::sa::DATA;
use rdma::errno::enodata;

/// Record format of a path query and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathForm {
    /// InfiniBand format.
    Ib,
    /// Omni-Path format.
    Opa,
    /// Omni-Path format for the user, InfiniBand format in MADs.
    OpaByIb,
}

/// Kind of a query, with its recipient.
pub(super) enum Kind {
    /// A path, with the parameters for the local service.
    Path {
        user: Callback<PathDone>,
        form: PathForm,
        asked: Path,
        mask: u64,
    },
    /// Service records.
    Service(Callback<ServiceDone>),
    /// GUID records.
    GuidInfo(Callback<GuidInfoDone>),
    /// Join of a group.
    Join(Arc<Group>),
    /// Leave of a group.
    Leave(Arc<Group>),
    /// Capabilities of the SA (ClassPortInfo).
    Class,
}

/// Complete MADs of a response.
pub(super) struct Received<'a>(&'a client::Received);

/// A response.
pub(super) enum Answer<'a> {
    /// From the SA.
    Datagrams(Received<'a>),
    /// From the local service.
    Local(local::Answer<'a>),
}

impl<'a> Answer<'a> {
    /// Converts MADs that the agent received.
    ///
    /// # Errors
    ///
    /// `EIO` if the work completion has an error status.
    pub(super) fn received(received: &'a client::Received) -> Result<Self> {
        if received.wc().status() != bindings::ib_wc_status_IB_WC_SUCCESS {
            return Err(EIO);
        }
        Ok(Self::Datagrams(Received(received)))
    }

    /// Returns the MADs of the SA.
    ///
    /// # Errors
    ///
    /// `EIO` for a response of the local service.
    fn datagrams(self) -> Result<Received<'a>> {
        match self {
            Self::Datagrams(received) => Ok(received),
            Self::Local(_) => Err(EIO),
        }
    }
}

impl Received<'_> {
    /// Returns the status for users, and the first record.
    ///
    /// # Errors
    ///
    /// `EIO` if the MAD is too short.
    fn first(&self) -> Result<(c_int, &[u8])> {
        let datagram = self.0.mad().get(..DATAGRAM).ok_or(EIO)?;
        let (head, record) = datagram.split_at_checked(Header::LEN).ok_or(EIO)?;
        let status = match Header::unpack(head).status {
            0 => 0,
            _ => EINVAL.to_errno(),
        };
        Ok((status, record))
    }

    /// Returns all services of a multi-segment response, whose records run across segments.
    ///
    /// # Errors
    ///
    /// `ENODATA` if there is none; `ENOMEM`.
    fn services(&self) -> Result<KVec<bindings::sa_service_rec>> {
        let len = usize::try_from(self.0.message_len()).unwrap_or(0);
        let count = len.saturating_sub(Header::LEN) / Service::LEN;
        if count == 0 {
            return Err(enodata());
        }
        let mut found = KVec::new();
        let mut parts = Parts::<{ Service::LEN }>::new();
        // A message of this length has no more segments.
        for mad in self.0.mads().take((len / DATA).saturating_add(1)) {
            for byte in mad.get(Header::LEN..DATAGRAM).unwrap_or_default() {
                let Some(record) = parts.add(*byte) else {
                    continue;
                };
                if found.len() < count {
                    let service = Service::unpack(record);
                    let service = service_to_c(&service, Default::default());
                    found.push(service, GFP_KERNEL)?;
                }
            }
        }
        if found.is_empty() {
            return Err(enodata());
        }
        Ok(found)
    }
}

impl PathForm {
    /// Unpacks a path record and converts it to C's structure.
    fn read(self, record: &[u8], flags: u32) -> bindings::sa_path_rec {
        let (path, rec_type) = match self {
            Self::Ib => (
                Path::unpack(record),
                bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB,
            ),
            Self::OpaByIb => (
                Path::unpack(record).to_opa(),
                bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA,
            ),
            Self::Opa => {
                let mut path = Path {
                    link: Link::Opa(OpaLink::default()),
                    ..Path::default()
                };
                path.read(record);
                (path, bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA)
            }
        };
        path_to_c(
            &path,
            bindings::sa_path_rec {
                rec_type,
                flags,
                ..Default::default()
            },
        )
    }
}

/// Paths for a user, limited by the size of the array.
struct Paths {
    status: c_int,
    records: [bindings::sa_path_rec; local::PATHS],
    count: u8,
}

impl Paths {
    /// Reads the paths of a response.
    ///
    /// # Errors
    ///
    /// `EIO` if the response has no path; the error of the query.
    fn read(answer: Result<Answer<'_>>, form: PathForm, wanted: local::Use) -> Result<Self> {
        let mut this = Self {
            status: 0,
            records: Default::default(),
            count: 0,
        };
        match answer? {
            Answer::Datagrams(received) => {
                let (status, record) = received.first()?;
                this.status = status;
                this.add(form.read(record, 0));
            }
            Answer::Local(answer) => {
                // Users of Omni-Path records expect one path.
                let most = if form == PathForm::Ib {
                    local::PATHS
                } else {
                    1
                };
                for found in answer.paths(wanted).take(most) {
                    let flags = if form == PathForm::Ib { found.flags } else { 0 };
                    this.add(form.read(found.record, flags));
                }
            }
        }
        if this.count == 0 {
            return Err(EIO);
        }
        Ok(this)
    }

    fn add(&mut self, path: bindings::sa_path_rec) {
        if let Some(place) = self.records.get_mut(usize::from(self.count)) {
            *place = path;
            self.count = self.count.saturating_add(1);
        }
    }
}

impl Kind {
    /// Returns the path and component mask to ask the local service for; `None` if the SA must be
    /// queried.
    pub(super) fn for_local_service(&self) -> Option<(Path, u64)> {
        match self {
            Self::Path {
                form: PathForm::Ib | PathForm::OpaByIb,
                asked,
                mask,
                ..
            } => Some((*asked, *mask)),
            Self::Path { .. }
            | Self::Service(_)
            | Self::GuidInfo(_)
            | Self::Join(_)
            | Self::Leave(_)
            | Self::Class => None,
        }
    }

    /// Delivers the result to the recipient. May sleep, as callbacks may.
    pub(super) fn tell(&self, port: &Arc<Port>, answer: Result<Answer<'_>>) {
        match self {
            Self::Path {
                user,
                form,
                asked,
                mask,
            } => {
                let paths = Paths::read(answer, *form, local::Use::of(asked, *mask));
                user.tell_paths(paths);
            }
            Self::Service(user) => user.tell_services(answer.and_then(Answer::datagrams)),
            Self::GuidInfo(user) => user.tell_guids(answer.and_then(Answer::datagrams)),
            Self::Join(group) => {
                let answer = answer.and_then(Answer::datagrams);
                let joined = answer.and_then(|received| {
                    let (status, record) = received.first()?;
                    to_result(status).map(|()| Member::unpack(record))
                });
                group.joined(joined);
            }
            Self::Leave(group) => {
                let answer = answer.and_then(Answer::datagrams);
                let left = answer.and_then(|received| to_result(received.first()?.0));
                group.left(left.is_ok());
            }
            Self::Class => {
                let answer = answer.and_then(Answer::datagrams);
                let said = answer.and_then(|received| {
                    let (status, record) = received.first()?;
                    to_result(status).map(|()| ClassPortInfo::unpack(record))
                });
                port.class_is(said.ok());
            }
        }
    }
}

impl Callback<PathDone> {
    fn tell_paths(&self, paths: Result<Paths>) {
        match paths {
            Ok(mut paths) => {
                let count = usize::from(paths.count);
                self.tell(
                    paths.status,
                    paths.records.get_mut(..count).unwrap_or_default(),
                );
            }
            Err(error) => self.tell(error.to_errno(), &mut []),
        }
    }
}

impl Callback<ServiceDone> {
    fn tell_services(&self, received: Result<Received<'_>>) {
        let found = received.and_then(|received| {
            let (status, _) = received.first()?;
            Ok((status, received.services()?))
        });
        match found {
            Ok((status, mut services)) => self.tell(status, &mut services),
            Err(error) => self.tell(error.to_errno(), &mut []),
        }
    }
}

impl Callback<GuidInfoDone> {
    fn tell_guids(&self, received: Result<Received<'_>>) {
        let found = received.and_then(|received| {
            let (status, record) = received.first()?;
            Ok((status, guids_to_c(&GuidInfo::unpack(record))))
        });
        match found {
            Ok((status, mut guids)) => self.tell(status, Some(&mut guids)),
            Err(error) => self.tell(error.to_errno(), None),
        }
    }
}
