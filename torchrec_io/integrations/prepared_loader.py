"""What loaders from ``Accelerator.prepare`` require of the datasets that they read."""

from __future__ import annotations

from dataclasses import dataclass

from .._tensors.trainers import ReadDataset, TrainerLoader

_MAKE_LOADER = (
    "loader = tio.make_loader(dataset, device=accelerator.device), which needs no prepare; with "
    "transformers' Trainer, return tio.make_loader(dataset, collate_fn=dict) from "
    "get_train_dataloader"
)

# Stands for a prepared loader where none reads the dataset, as before the first loop.
MISSING = TrainerLoader(
    problem=(
        "this program has an Accelerator with several processes, but the dataset is not read by a "
        "DataLoader from accelerator.prepare, so each process would read all records. Pass the "
        f"DataLoader to prepare; or write {_MAKE_LOADER}; or give rank and world_size to the "
        "dataset (rank=0, world_size=1 to read all of it here). With use_stateful_dataloader=True "
        "and workers, which start in prepare, write "
        "DataLoaderConfiguration(dispatch_batches=False)"
    ),
    is_iterating=False,
)


@dataclass(frozen=True)
class PreparedLoader:
    """A loader from ``Accelerator.prepare``.

    Attributes:
        num_processes: Number of processes that share what the dataset yields.
        batch_size: Number of samples that are put together; None if items are used as they are.
        split_batches: Whether a batch is for all processes, not for one.
        is_dispatcher: Whether process 0 reads for all.
        keeps_columns: Whether the columns of its batches are those of the dataset.
        has_peers: Whether some processes must read the same records, as in tensor parallelism.
    """

    num_processes: int
    batch_size: int | None
    split_batches: bool = False
    is_dispatcher: bool = False
    keeps_columns: bool = True
    has_peers: bool = False

    def reading(self, dataset: ReadDataset) -> TrainerLoader:
        """Return the requirements of the loader for reading a dataset."""
        return TrainerLoader(self._samples_at_once(), self._warning(), self._problem_with(dataset))

    def _samples_at_once(self) -> int | None:
        """Return the number of samples of one worker, or records would be lost or repeated.

        A dispatcher drops what it cannot divide, and a shard fills up what is not full.
        """
        if self.num_processes == 1:
            return None  # nothing is divided; workers that start in prepare know no batch size
        if self.batch_size is None or self.is_dispatcher or self.split_batches:
            return self.batch_size
        return self.batch_size * self.num_processes

    def _warning(self) -> str | None:
        """Return a warning about the cost of reading, if there is one."""
        if self.is_dispatcher or self.num_processes == 1:
            return None
        return (
            f"each of the {self.num_processes} processes reads all records, of which Accelerate "
            "passes on a share. With tio.make_loader, a process reads its share only"
        )

    def _problem_with(self, dataset: ReadDataset) -> str | None:  # noqa: PLR0911  # one for each
        """Return why the loader cannot divide the items of a dataset; None if it can."""
        world_size = dataset.world_size
        if world_size is not None and world_size > 1:
            return (
                "world_size must be None for a DataLoader that Accelerate prepares, and mesh, got "
                f"{world_size}: Accelerate itself gives each process its share of the dataset"
            )
        if self.is_dispatcher and self.has_peers:
            return (
                "Accelerate cannot dispatch the same batches to processes that divide a model. "
                "Write Accelerator(dataloader_config=DataLoaderConfiguration("
                "dispatch_batches=False)); or give mesh=accelerator.torch_device_mesh[...] to the "
                f"dataset, and write {_MAKE_LOADER}"
            )
        if self.batch_size is not None and dataset.in_batches:
            return (
                f"the dataset yields batches, which DataLoader(batch_size={self.batch_size}) would "
                f"put into batches. Write {_MAKE_LOADER}; or remove batch_size from the dataset, "
                "which then yields samples"
            )
        if self.is_dispatcher and not self.keeps_columns:
            return None  # whatever collate_fn makes of an item
        if not self.is_dispatcher and self.num_processes == 1:
            return None  # nothing is divided
        if self.batch_size is None:
            what = "a Batch" if dataset.in_batches else "a single sample"
            return (
                f"Accelerate cannot split {what} among processes, which DataLoader(dataset, "
                f"batch_size=None) yields. Write {_MAKE_LOADER}; or give batch_size to the "
                "DataLoader and not to the dataset"
            )
        other_columns = dataset.other_columns() if self.is_dispatcher else ()
        if other_columns:
            return (
                f"Accelerate cannot dispatch {', '.join(other_columns)} from one process to the "
                "others: only Tensors can be split. Write Accelerator(dataloader_config="
                f"DataLoaderConfiguration(dispatch_batches=False)); or {_MAKE_LOADER}"
            )
        return None
