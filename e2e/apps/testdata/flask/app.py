"""An application with a login of its own, kept in Flask's cookie "session"."""

import sys

from flask import Flask, jsonify, request, session

app = Flask(__name__)
app.secret_key = "of the application"


@app.get("/")
def whoami():
    return jsonify(flask=session.get("name", ""), gate=request.headers.get("X-Auth-User", ""))


@app.post("/app/login")
def login():
    session["name"] = request.form["name"]
    return whoami()


@app.post("/app/logout")
def logout():
    session.clear()
    return whoami()


app.run(port=int(sys.argv[1]))
