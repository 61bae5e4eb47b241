// SPDX-License-Identifier: GPL-2.0

//! What was asked and by whom, and how the answer is told.

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
use crate::errno::enodata;
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

/// In what form a path is asked for, and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathForm {
    /// InfiniBand's.
    Ib,
    /// Omni-Path's.
    Opa,
    /// Omni-Path's, for which InfiniBand's stands in datagrams.
    OpaByIb,
}

/// What was asked, and by whom.
pub(super) enum Kind {
    /// A path; what the local service is asked for.
    Path {
        user: Callback<PathDone>,
        form: PathForm,
        asked: Path,
        mask: u64,
    },
    /// Services.
    Service(Callback<ServiceDone>),
    /// GUIDs.
    GuidInfo(Callback<GuidInfoDone>),
    /// A group is joined.
    Join(Arc<Group>),
    /// A group is left.
    Leave(Arc<Group>),
    /// What the administrator can do.
    Class,
}

/// Datagrams of an answer, which were received whole.
pub(super) struct Received<'a>(&'a client::Received);

/// An answer.
pub(super) enum Answer<'a> {
    /// Of the administrator.
    Datagrams(Received<'a>),
    /// Of the local service.
    Local(local::Answer<'a>),
}

impl<'a> Answer<'a> {
    /// What the agent received.
    ///
    /// # Errors
    ///
    /// `EIO` if it was not received well.
    pub(super) fn received(received: &'a client::Received) -> Result<Self> {
        if received.wc().status() != bindings::ib_wc_status_IB_WC_SUCCESS {
            return Err(EIO);
        }
        Ok(Self::Datagrams(Received(received)))
    }

    /// The administrator's datagrams.
    ///
    /// # Errors
    ///
    /// `EIO` if they are not his.
    fn datagrams(self) -> Result<Received<'a>> {
        match self {
            Self::Datagrams(received) => Ok(received),
            Self::Local(_) => Err(EIO),
        }
    }
}

impl Received<'_> {
    /// The status for users, and the first record.
    ///
    /// # Errors
    ///
    /// `EIO` if there is none.
    fn first(&self) -> Result<(c_int, &[u8])> {
        let datagram = self.0.mad().get(..DATAGRAM).ok_or(EIO)?;
        let (head, record) = datagram.split_at_checked(Header::LEN).ok_or(EIO)?;
        let status = match Header::unpack(head).status {
            0 => 0,
            _ => EINVAL.to_errno(),
        };
        Ok((status, record))
    }

    /// All services of a long answer: the data of the datagrams follow on each other.
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
        // No list of this length has more.
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
    /// Reads a path, and gives it to C.
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

/// Paths for a user: as many as the array has, at most.
struct Paths {
    status: c_int,
    records: [bindings::sa_path_rec; local::PATHS],
    count: u8,
}

impl Paths {
    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// `EIO` if there is no path in it, and what the query failed with.
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
                // Users of the wider form expect one.
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
    /// The path for which the local service may be asked, and which of its fields count.
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

    /// Tells whoever asked. May sleep, as they may.
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
