"""The words of the demo model, the voices for training, and the voices for testing.

whisper.cpp derives the special token numbers from the size of the vocabulary, so these are the numbers of English-only
Whisper. The words have our own numbers, after the printable ASCII characters (whisper.cpp needs " ", and can then split
any English prompt).
"""

DIGITS = "zero one two three four five six seven eight nine".split()
COMMANDS = (
    "yes no up down left right on off go stop start pause play resume next previous open close save delete copy paste "
    "send print help cancel repeat undo home menu light music door window timer alarm camera volume weather kitchen"
).split()
WORDS = DIGITS + COMMANDS

TOKENS = [chr(c) for c in range(32, 127)] + [" " + word for word in WORDS]
FIRST_WORD = len(TOKENS) - len(WORDS)

VOCABULARY = 51864
EOT, SOT, PREV, NO_SPEECH, NO_TIMES, TIME_0 = 50256, 50257, 50360, 50361, 50362, 50363
# Times have steps of 0.2 s, every tenth of the existing tokens. Finer steps would only be less certain.
TIME_STEP = 10
TIME_SECONDS = 0.02 * TIME_STEP
TIMES = 151

# Tokens that have their own trained row; all others share one row. Order: words, then special tokens, then times.
USED = (
    list(range(FIRST_WORD, FIRST_WORD + len(WORDS)))
    + [EOT, SOT, PREV, NO_SPEECH, NO_TIMES]
    + [TIME_0 + TIME_STEP * i for i in range(TIMES)]
)
ROW = {token: row for row, token in enumerate(USED)}

# Accents and speaker variants of espeak-ng. Held-out speakers and speeds are in no training clip.
TRAIN_ACCENTS = ["en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-029", "en-gb-x-gbcwmd"]
TEST_ACCENTS = ["en-us", "en", "en-gb-x-rp", "en-us-nyc", "en-gb-x-gbclan"]
TEST_VARIANTS = "f3 f5 m4 m7 Andrea Denis Gene Lee belinda caleb edward2 marcelo steph2 zac".split()
TRAIN_VARIANTS = (
    "f1 f2 f4 m1 m2 m3 m5 m6 m8 Alex Alicia Andy Annie Diogo Gene2 Henrique Hugo Jacky Marco Mario Michael Mike Nguyen "
    "RicishayMax RicishayMax2 adam anika antonio aunty benjamin boris david ed edward fast grandma grandpa gustave iven "
    "iven2 iven3 john kaukovalta klatt klatt2 klatt3 klatt4 linda max michel miguel norbert pablo paul pedro quincy rob "
    "robert sandro shelby steph steph3 travis victor"
).split()
TRAIN_SPEEDS = [(115, 150), (165, 180), (200, 225)]  # words a minute
TEST_SPEEDS = [(152, 163), (182, 198)]
