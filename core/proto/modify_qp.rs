// SPDX-License-Identifier: GPL-2.0

//! Which attributes a change of a queue pair's state must have, and which it may.
//!
//! The rules are data: [`CHANGES`] says which states follow which, and each row of
//! [`RULES`] adds attributes to a change, for a set of transport types. What a
//! change requires or permits is the union of the rows that fit, so that a rule
//! common to several types is written once ("the responder of a reliable transport
//! has an RNR timer"). A queue pair is modified a few times in its life: looking
//! through some thirty rows is cheap, and nothing is expanded beforehand.
//!
//! The rules are those of the
//! InfiniBand Architecture Specification, volume 1, 11.2.5.2 (tables of the Modify
//! Queue Pair verb), as the exported `ib_modify_qp_is_ok` of the kernel reads them;
//! `rdma_kunit_core` compares the two over every type and every pair of states.
//! Known differences from the table in the specification, which we share with the
//! peer: a queue pair in RESET cannot be moved to ERR, nor one in SQE to SQE.

pub use super::qp::Attrs;
pub use super::qp::QpState;
pub use super::qp::QpType;

/// The states that follow the state of each row's position, as a set of bits.
const CHANGES: [u8; 7] = {
    use self::QpState as S;
    // Whatever is set up can be reset, and fails as a whole.
    let ends = S::Reset.bit() | S::Err.bit();
    [
        S::Reset.bit() | S::Init.bit(),
        ends | S::Init.bit() | S::Rtr.bit(),
        ends | S::Rts.bit(),
        ends | S::Rts.bit() | S::Sqd.bit(),
        ends | S::Rts.bit() | S::Sqd.bit(),
        ends | S::Rts.bit(),
        ends,
    ]
};

/// A set of [`QpType`]s.
#[derive(Clone, Copy)]
struct Types(u16);

impl Types {
    const fn of(types: &[QpType]) -> Types {
        let mut bits = 0;
        let mut rest = types;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        Types(bits)
    }

    const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    const fn has(self, qp_type: QpType) -> bool {
        self.0 & qp_type.bit() != 0
    }
}

const UC: Types = Types::of(&[QpType::Uc]);
const UD: Types = Types::of(&[QpType::Ud]);
const RAW: Types = Types::of(&[QpType::RawPacket]);
/// Everybody may write to them who knows the key.
const DATAGRAM: Types = Types::of(&[QpType::Smi, QpType::Gsi, QpType::Ud]);
/// Those whose requests are acknowledged.
const REQUESTER: Types = Types::of(&[QpType::Rc, QpType::XrcIni]);
/// Those that acknowledge requests.
const RESPONDER: Types = Types::of(&[QpType::Rc, QpType::XrcTgt]);
const RELIABLE: Types = REQUESTER.or(RESPONDER);
/// Those with one peer.
const CONNECTED: Types = RELIABLE.or(UC);
const IBTA: Types = DATAGRAM.or(CONNECTED);

/// Whether a rule's attributes must be there, or may.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// One rule: for each change from one of these states to one of those, the types
/// take the attributes.
struct Rule {
    from: u8,
    to: u8,
    need: Need,
    types: Types,
    attrs: Attrs,
}

const fn rule(from: u8, to: u8, need: Need, types: Types, attrs: Attrs) -> Rule {
    Rule {
        from,
        to,
        need,
        types,
        attrs,
    }
}

const RULES: &[Rule] = {
    use self::Attrs as A;
    use self::Need::Optional;
    use self::Need::Required;
    const RESET: u8 = QpState::Reset.bit();
    const INIT: u8 = QpState::Init.bit();
    const RTR: u8 = QpState::Rtr.bit();
    const RTS: u8 = QpState::Rts.bit();
    const SQD: u8 = QpState::Sqd.bit();
    const SQE: u8 = QpState::Sqe.bit();
    // Ready to send is entered, or kept, by three ways with the same options.
    const TO_SEND: u8 = RTR | RTS | SQD;

    &[
        rule(RESET, INIT, Required, IBTA, A::PKEY_INDEX),
        // QP 0 and QP 1 were made for a port.
        rule(RESET, INIT, Required, CONNECTED.or(UD).or(RAW), A::PORT),
        rule(RESET, INIT, Required, DATAGRAM, A::QKEY),
        rule(RESET, INIT, Required, CONNECTED, A::ACCESS_FLAGS),
        //
        rule(INIT, INIT, Optional, IBTA, A::PKEY_INDEX),
        rule(INIT, INIT, Optional, CONNECTED.or(UD), A::PORT),
        rule(INIT, INIT, Optional, DATAGRAM, A::QKEY),
        rule(INIT, INIT, Optional, CONNECTED, A::ACCESS_FLAGS),
        //
        rule(
            INIT,
            RTR,
            Required,
            CONNECTED,
            A::AV.and(A::PATH_MTU).and(A::DEST_QPN).and(A::RQ_PSN),
        ),
        rule(
            INIT,
            RTR,
            Required,
            RESPONDER,
            A::MAX_DEST_RD_ATOMIC.and(A::MIN_RNR_TIMER),
        ),
        rule(INIT, RTR, Optional, IBTA, A::PKEY_INDEX),
        rule(INIT, RTR, Optional, DATAGRAM, A::QKEY),
        rule(
            INIT,
            RTR,
            Optional,
            CONNECTED,
            A::ALT_PATH.and(A::ACCESS_FLAGS),
        ),
        //
        rule(RTR, RTS, Required, IBTA, A::SQ_PSN),
        rule(RTR, RTS, Required, RELIABLE, A::TIMEOUT),
        rule(
            RTR,
            RTS,
            Required,
            REQUESTER,
            A::RETRY_CNT.and(A::RNR_RETRY).and(A::MAX_QP_RD_ATOMIC),
        ),
        rule(TO_SEND, RTS, Optional, IBTA, A::CUR_STATE),
        rule(TO_SEND, RTS, Optional, DATAGRAM, A::QKEY),
        rule(
            TO_SEND,
            RTS,
            Optional,
            CONNECTED,
            A::ALT_PATH.and(A::ACCESS_FLAGS).and(A::PATH_MIG_STATE),
        ),
        rule(TO_SEND, RTS, Optional, RESPONDER, A::MIN_RNR_TIMER),
        //
        rule(RTS, SQD, Optional, IBTA, A::EN_SQD_ASYNC_NOTIFY),
        //
        rule(SQD, SQD, Optional, IBTA, A::PKEY_INDEX),
        rule(SQD, SQD, Optional, DATAGRAM, A::QKEY),
        rule(
            SQD,
            SQD,
            Optional,
            CONNECTED,
            A::AV
                .and(A::ALT_PATH)
                .and(A::ACCESS_FLAGS)
                .and(A::PATH_MIG_STATE),
        ),
        rule(SQD, SQD, Optional, RELIABLE, A::PORT.and(A::TIMEOUT)),
        rule(
            SQD,
            SQD,
            Optional,
            REQUESTER,
            A::RETRY_CNT.and(A::RNR_RETRY).and(A::MAX_QP_RD_ATOMIC),
        ),
        rule(
            SQD,
            SQD,
            Optional,
            RESPONDER,
            A::MAX_DEST_RD_ATOMIC.and(A::MIN_RNR_TIMER),
        ),
        // Reliable transports have no SQE: what breaks them breaks them as a whole.
        rule(SQE, RTS, Optional, DATAGRAM.or(UC), A::CUR_STATE),
        rule(SQE, RTS, Optional, DATAGRAM, A::QKEY),
        rule(SQE, RTS, Optional, UC, A::ACCESS_FLAGS),
    ]
};

/// Always allowed: the new state itself, and a limit of the pace, which only some
/// devices know and which they check for themselves.
const ALWAYS: Attrs = Attrs::STATE.and(Attrs::RATE_LIMIT);

/// What a change takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// All of these must be given.
    pub required: Attrs,
    /// These may be given, besides the required ones.
    pub optional: Attrs,
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `CUR_STATE` is given in a state that needs no claim.
    Claim,
    /// The one state never follows the other.
    NoSuchChange,
    /// These attributes are missing.
    Missing(Attrs),
    /// These are not for this change.
    NotAllowed(Attrs),
}

/// Whether the one state may follow the other at all.
pub fn follows(from: QpState, to: QpState) -> bool {
    CHANGES
        .get(usize::from(from as u8))
        .is_some_and(|next| next & to.bit() != 0)
}

/// What the change takes for this type: nothing, if there is no such change.
pub fn takes(from: QpState, to: QpState, qp_type: QpType) -> Takes {
    let fits = |rule: &&Rule| {
        rule.from & from.bit() != 0 && rule.to & to.bit() != 0 && rule.types.has(qp_type)
    };
    RULES
        .iter()
        .filter(fits)
        .fold(Takes::default(), |sum, rule| match rule.need {
            Need::Required => Takes {
                required: sum.required.and(rule.attrs),
                ..sum
            },
            Need::Optional => Takes {
                optional: sum.optional.and(rule.attrs),
                ..sum
            },
        })
}

/// Judges a change with these attributes.
///
/// # Errors
///
/// The first reason found. The caller's errno for each is `EINVAL`; the reason is
/// for its debug message.
pub fn judge(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> Result<(), Refusal> {
    if attrs.has_any(Attrs::CUR_STATE) && !from.can_be_claimed() {
        return Err(Refusal::Claim);
    }
    if !follows(from, to) {
        return Err(Refusal::NoSuchChange);
    }
    let Takes { required, optional } = takes(from, to, qp_type);
    let missing = required.without(attrs);
    if !missing.is_empty() {
        return Err(Refusal::Missing(missing));
    }
    let excess = attrs.without(required.and(optional).and(ALWAYS));
    if !excess.is_empty() {
        return Err(Refusal::NotAllowed(excess));
    }
    Ok(())
}

/// Whether a change with these attributes is in order: `ib_modify_qp_is_ok`.
pub fn check(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> bool {
    judge(from, to, qp_type, attrs).is_ok()
}
