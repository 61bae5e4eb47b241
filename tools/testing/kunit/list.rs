// SPDX-License-Identifier: GPL-2.0

//! `rdma::list`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_list)]
mod tests {
    use kernel::list::impl_list_arc_safe;
    use kernel::list::impl_list_item;
    use kernel::list::AtomicTracker;
    use kernel::list::List;
    use kernel::list::ListArc;
    use kernel::list::ListLinks;
    use kernel::list::TryNewListArc;
    use kernel::prelude::*;
    use kernel::sync::Arc;
    use rdma::list::Tag;
    use rdma::list::TaggedList;

    #[pin_data]
    struct Item {
        #[pin]
        links: ListLinks,
        #[pin]
        listed: AtomicTracker,
        tag: Tag,
        value: u32,
    }

    impl_list_arc_safe! {
        impl ListArcSafe<0> for Item { tracked_by listed: AtomicTracker; }
    }
    impl_list_item! {
        impl ListItem<0> for Item { using ListLinks { self.links }; }
    }
    rdma::impl_tagged!(impl Tagged<0> for Item { self.tag });

    fn item(value: u32) -> Result<Arc<Item>> {
        Arc::pin_init(
            pin_init!(Item {
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                tag: Tag::new(),
                value,
            }),
            GFP_KERNEL,
        )
    }

    fn listed(item: &Arc<Item>) -> Result<ListArc<Item>> {
        ListArc::try_from_arc(item.clone()).map_err(|_| EBUSY)
    }

    fn filled(items: &[Arc<Item>]) -> Result<TaggedList<Item>> {
        let mut list = TaggedList::new();
        for item in items {
            list.push_back(listed(item)?);
        }
        Ok(list)
    }

    /// Whether the list has these values, in this order.
    fn has(list: &TaggedList<Item>, values: &[u32]) -> bool {
        list.iter()
            .map(|item| item.value)
            .eq(values.iter().copied())
            && list.is_empty() == values.is_empty()
            && list.first().map(|item| item.value) == values.first().copied()
    }

    #[test]
    fn an_item_is_removed_from_any_place() -> Result {
        let items = [item(0)?, item(1)?, item(2)?];
        let [first, middle, last] = &items;
        let mut list = filled(&items)?;
        assert!(has(&list, &[0, 1, 2]));
        assert!(list.remove(middle).is_some());
        assert!(has(&list, &[0, 2]));
        assert!(list.remove(first).is_some());
        assert!(has(&list, &[2]));
        assert!(list.remove(last).is_some());
        assert!(has(&list, &[]));
        assert!(list.pop_front().is_none());
        Ok(())
    }

    #[test]
    fn an_item_of_another_list_is_not_removed() -> Result {
        let (mine, others, free) = ([item(0)?], [item(1)?, item(2)?], item(3)?);
        let [one, two] = &others;
        let mut list = filled(&mine)?;
        let mut other = filled(&others)?;
        assert!(list.remove(one).is_none());
        assert!(list.remove(two).is_none());
        assert!(list.remove(&free).is_none());
        // A list without tags.
        let mut plain = List::new();
        plain.push_back(listed(&free)?);
        assert!(list.remove(&free).is_none());
        assert!(has(&list, &[0]) && has(&other, &[1, 2]));
        assert!(other.remove(two).is_some());
        assert!(has(&other, &[1]));
        assert!(plain.pop_front().is_some());
        Ok(())
    }

    #[test]
    fn an_item_that_was_taken_out_is_in_no_list() -> Result {
        let items = [item(0)?, item(1)?];
        let [first, last] = &items;
        let mut list = filled(&items)?;
        let taken = list.pop_front().ok_or(EINVAL)?;
        assert!(list.remove(first).is_none());
        let kept = list.remove(last).ok_or(EINVAL)?;
        assert!(list.remove(last).is_none());
        // They may be inserted again.
        list.push_back(kept);
        list.push_back(taken);
        assert!(has(&list, &[1, 0]));
        assert!(list.remove(first).is_some());
        Ok(())
    }

    #[test]
    fn an_item_that_is_put_back_is_the_first() -> Result {
        let items = [item(0)?, item(1)?];
        let [first, last] = &items;
        let mut list = filled(&items)?;
        let taken = list.pop_front().ok_or(EINVAL)?;
        assert!(!list.contains(first) && list.contains(last));
        list.push_front(taken);
        assert!(has(&list, &[0, 1]) && list.contains(first));
        let other = filled(&[item(2)?])?;
        assert!(!other.contains(first) && !other.contains(last));
        assert!(list.remove(first).is_some() && !list.contains(first));
        Ok(())
    }

    #[test]
    fn a_list_that_is_dropped_releases_its_items() -> Result {
        let items = [item(0)?, item(1)?];
        let [first, last] = &items;
        let mut list = filled(&items)?;
        drop(filled(&[item(2)?])?);
        drop(core::mem::replace(&mut list, TaggedList::new()));
        assert!(list.remove(first).is_none());
        list.push_back(listed(last)?);
        assert!(has(&list, &[1]));
        assert!(list.remove(last).is_some());
        Ok(())
    }

    #[test]
    fn an_item_is_inserted_in_order() -> Result {
        let mut list = TaggedList::new();
        for value in [5, 1, 9, 5, 7] {
            let item = item(value)?;
            list.insert_before(listed(&item)?, |other| other.value > value);
        }
        assert!(has(&list, &[1, 5, 5, 7, 9]));
        Ok(())
    }
}
