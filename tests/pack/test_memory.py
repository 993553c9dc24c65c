"""Memory of a pack: six times the records take no more of it, and what can't be stored isn't read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture

MEBIBYTE = 1 << 20

PACK = textwrap.dedent(
    """
    import sys, threading, time
    from toolkit.format import key_repeats
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    key_repeats._ROWS_AT_A_TIME = 10_000
    peak = 0

    def watch():
        global peak
        while True:
            with open("/proc/self/status") as file:
                peak = max(peak, sum(int(line.split()[1]) for line in file if line.startswith(("RssAnon", "RssShmem"))))
            time.sleep(0.002)

    threading.Thread(target=watch, daemon=True).start()
    pack(PackJob(source=sys.argv[1], dataset=sys.argv[2], shard_size=1 << 18))
    print(peak * 1024)
    """
)


def peak_of(rows: int, folder: Path) -> int:
    table = pa.table({"n": pa.array(range(rows), pa.int64()), "text": [f"row {i}" for i in range(rows)]})
    pq.write_table(table, folder / f"{rows}.parquet", row_group_size=10_000)
    command = [sys.executable, "-c", PACK, str(folder / f"{rows}.parquet"), str(folder / f"out{rows}")]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_many_tiny_records_take_no_more_memory_than_few(tmp_path: Path) -> None:
    few, many = peak_of(30_000, tmp_path), peak_of(200_000, tmp_path)
    # Sixty bytes kept of each record would be 10 MiB.
    assert many - few < 10 * MEBIBYTE


def test_a_file_too_large_for_a_value_is_a_reject_that_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "src/ant"
    folder.mkdir(parents=True)
    (folder / "small.jpg").write_bytes(encode(picture(1)))
    (folder / "huge.jpg").write_bytes(encode(picture(2)))
    os.truncate(folder / "huge.jpg", 3 << 30)  # sparse: takes no room on the disk, but 3 GiB of memory if it's read
    command = textwrap.dedent(
        """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        from toolkit.pack.job import PackJob
        from toolkit.pack.run import pack
        print(*(f"{one.key}: {one.reason}" for one in pack(PackJob(
            source=sys.argv[1], dataset=sys.argv[2], max_rejects=1)).rejects))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "src"), str(tmp_path / "ds")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == (
        "ant/huge.jpg: 3221225472 bytes are more than a value may have (268435456); --max-value-bytes says how many\n"
    )
