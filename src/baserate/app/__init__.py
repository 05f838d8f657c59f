"""A page in the browser, on the user's own machine, for people who do not write code.

| module | contents |
|---|---|
| `server.py` | starts and stops the server |
| `views.py`, `pages.py` | what each address answers, and the templates |
| `security.py` | which requests are answered at all |
| `private_folder.py`, `uploads.py` | files that the server keeps while it runs |
| `recognition.py` | which columns hold probabilities, labels and groups |
| `forms.py`, `commands.py` | what the user entered, as rates and as commands |
| `analyses.py`, `what_if.py` | the open files, and their adjustments to the entered rates |
| `jobs.py` | long work, with progress and cancellation |
| `charts.py` | positions of the marks in the pictures |

The package contains no mathematics: it calls the functions that other users call.
"""
