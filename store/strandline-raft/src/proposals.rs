//! Combines proposals that arrive at the same time in one entry of the log.

use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::impls::OneshotResponder;
use openraft::{AsyncRuntime, Raft, RaftTypeConfig};
use tokio::sync::{mpsc, oneshot};

/// The largest number of commands in an entry.
const AT_ONCE: usize = 256;

type NodeId<C> = <C as RaftTypeConfig>::NodeId;
type Failure<C> = RaftError<NodeId<C>, ClientWriteError<NodeId<C>, <C as RaftTypeConfig>::Node>>;
type Proposal<C, Q, R> = (Q, oneshot::Sender<Result<R, Failure<C>>>);

/// Proposes commands to a group whose entries hold several commands: `C::D` is `Vec<Q>`, and `C::R` is `Vec<R>`, with one response for each command.
///
/// openraft waits for the disk once for each entry. Commands that are proposed meanwhile become the next entry: they share its flush, its messages to
/// the followers, and its transaction. A command that arrives alone does not wait for others.
///
/// The entries of a group follow one another: while the leader reaches no majority, all proposals wait.
pub struct Proposals<C: RaftTypeConfig, Q, R>(mpsc::UnboundedSender<Proposal<C, Q, R>>);

impl<C: RaftTypeConfig, Q, R> Clone for Proposals<C, Q, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, Q, R> Proposals<C, Q, R>
where
    C: RaftTypeConfig<D = Vec<Q>, R = Vec<R>, Responder = OneshotResponder<C>>,
    Q: Send + 'static,
    R: Send + 'static,
{
    /// Creates a proposer for the group of `raft`. Call this in the runtime of `raft`.
    pub fn new(raft: Raft<C>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The task ends when this and its clones are dropped.
        let _task = C::AsyncRuntime::spawn(propose_all(raft, receiver));
        Self(sender)
    }

    /// Proposes a command, and returns its response after it was committed, and applied on the leader.
    ///
    /// # Errors
    /// Returns the errors of `Raft::client_write`.
    pub async fn propose(&self, command: Q) -> Result<R, Failure<C>> {
        let stopped = || RaftError::Fatal(Fatal::Stopped);
        let (tell, told) = oneshot::channel();
        self.0.send((command, tell)).map_err(|_| stopped())?;
        told.await.map_err(|_| stopped())?
    }
}

async fn propose_all<C, Q, R>(raft: Raft<C>, mut proposals: mpsc::UnboundedReceiver<Proposal<C, Q, R>>)
where
    C: RaftTypeConfig<D = Vec<Q>, R = Vec<R>, Responder = OneshotResponder<C>>,
{
    while let Some(first) = proposals.recv().await {
        let (mut commands, mut tells) = (vec![first.0], vec![first.1]);
        while commands.len() < AT_ONCE
            && let Ok((command, tell)) = proposals.try_recv()
        {
            commands.push(command);
            tells.push(tell);
        }
        // A caller that no longer waits gets no response.
        match raft.client_write(commands).await {
            Ok(written) => {
                tells
                    .into_iter()
                    .zip(written.data)
                    .for_each(|(tell, response)| drop(tell.send(Ok(response))));
            }
            Err(error) => tells.into_iter().for_each(|tell| drop(tell.send(Err(error.clone())))),
        }
    }
}
