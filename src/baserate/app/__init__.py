"""A page in the browser, on the user's own machine, for people who do not write code.

| module | contents |
|---|---|
| `server.py` | starts and stops the server |
| `views.py`, `pages.py` | what each address answers, and the templates |
| `security.py` | which requests are answered at all |
| `private_folder.py`, `uploads.py` | files that the server keeps while it runs |
| `extra_files.py` | checks of files with rates or validation data |
| `file_names.py` | names of uploads and of what is made from them |
| `recognition.py` | which columns hold probabilities, labels and groups |
| `csv_problems.py` | what is unusual about a CSV file |
| `forms.py`, `commands.py` | what the user entered, as rates and as commands |
| `analyses.py`, `what_if.py` | the open files, and their adjustments to the entered rates |
| `jobs.py` | long work, with progress and cancellation |
| `answers.py`, `rate_texts.py`, `wording.py` | what the page says about an adjustment, and its messages |
| `downloads.py` | what the files are that can be downloaded |
| `charts.py` | positions of the marks in the pictures |

The package contains no mathematics: it calls the functions that other users call.
"""
