# SPDX-License-Identifier: MIT
"""Transcribes recordings with pywhispercpp, which must be in PYTHONPATH. Prints a JSON object: for each recording, the
texts of its segments.

    peer.py MODEL BEAMS FILE...       BEAMS 1: greedy decoding
"""
import json
import sys

from pywhispercpp.model import Model


def main():
    path, beams, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    options = {"beam_search": {"beam_size": beams, "patience": -1.0}} if beams > 1 else {}
    model = Model(path, params_sampling_strategy=beams > 1, redirect_whispercpp_logs_to=None, n_threads=1, language="en",
                  temperature_inc=0.0, print_progress=False, print_realtime=False, **options)
    print(json.dumps({file: [segment.text for segment in model.transcribe(file)] for file in files}))


main()
