"""The grading engine behind `devlab grade`: which processes there are, and what passes between them.

    grader ──stdin──> zygote ──forks──> checker, one a job <───two pipes───┐
      │                 └──────forks──> second process                     │
      │                                   └──forks──> watcher, one a job ──┘
      └──socket────────────────────────────────────────> │ │ ^
                                                  socket │ │ │ pipe
                                    template <───────────┘ │ │
                                      │ ^──────forks───────┘ │
                                      └──forks──> worker, one a run, walled in

Each message is JSON after its length in four bytes (`processes.send`), to a template a packet of JSON.

- The **grader** (`command`, `grade`, `processes.Family`) is what a teacher starts. `cells` makes a list of
  steps of each notebook: what is run, in which order. For each assignment the grader starts a zygote. A
  watcher says {"learned": its process} once its template is there. Then the grader asks it {"steps", "names"}
  for each submission, and is told {"exercises": verdicts, "own", "seconds"} or {"problem"}. The grader works
  out the points from the verdicts' rows, and writes the record.
- The **zygote** (`zygote.main`) imports PyTorch and the lessons. Stdin gives it {"folder", "ends", "level",
  "limits", "names", "hidden"}, and then the teacher's steps, solutions included. It forks the second process
  before it reads those, so that no solution is in the memory of a worker. It runs them in children
  (`checker.learn`), tells the second process which modules they came to import, {"modules"}, and forks the
  checkers.
- The **second process** (`zygote._templates`) makes the scratch folders and Landlock's rules, imports those
  modules too, and forks a watcher for each job; each watcher forks its template before it reads anything.
- The **watcher** (`watcher`) sends its template {"steps": how many, "skip", "nonce", "everything"}, with the
  open file of the steps and the end of a pipe, to have a worker forked, and {"end"} to have all ended that is
  left of it; the template answers {} or {"problem"}. The watcher looks at the clock, at memory and disk
  (`quota`), and reads the pipe, through which anything may come. A worker that ends early costs one exercise:
  the rest is run in a new worker.
- The **worker** (`worker`, forked by `zygote.Template`) runs the submission. **It alone is walled in**, in
  `zygote.Template._child`, before it runs a cell: by limits (`quota.set_limits`), namespaces, Landlock and a
  filter of system calls (`walls`), as far as the isolation level goes. It sends {"begin"}, {"own"}, {"done":
  name, outcome, rows, calls} and {"end"}, each with the nonce. `calls` is what the answers returned
  (`transcript.Recorder`); `seal` puts back what judges them.
- The **checker** (`checker`) never runs a student's code. The watcher sends it the verdicts. It judges the
  rows of those that are not the reference's again by `calls` alone, in a child that is thrown away. A row
  that it refutes costs the exercise, and all that was not confirmed; a row that it cannot read earns nothing,
  if it could read the reference's.
"""
