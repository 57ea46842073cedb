//! An array that uses memory only for the parts that are accessed.

const PAGE: usize = 512;

/// Values by number. A value that was never accessed is the default.
pub struct Pages<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Copy + Default> Pages<T> {
    /// Returns the value with number `index`.
    pub fn get_mut(&mut self, index: u32) -> &mut T {
        let page = index as usize / PAGE;
        if page >= self.pages.len() || self.pages[page].is_none() {
            self.make(page);
        }
        match &mut self.pages[page] {
            Some(page) => &mut page[index as usize % PAGE],
            None => unreachable!("the page has just been made"),
        }
    }

    #[cold]
    fn make(&mut self, page: usize) {
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page] = Some(Box::new([T::default(); PAGE]));
    }
}
