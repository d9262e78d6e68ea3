package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// typist is the person who answers.
type typist interface {
	say(format string, args ...any)
	line() (string, error)
	// hidden returns the answer to a question, typed without echo.
	hidden(question string) (string, error)
	// secret returns a password and its repetition, typed without echo.
	secret() (typed [2]string, err error)
}

// terminal is a person at a terminal.
type terminal struct {
	in     *os.File
	prompt io.Writer
}

func (t terminal) say(format string, args ...any) { fmt.Fprintf(t.prompt, format, args...) }
func (t terminal) line() (string, error)          { return readLine(t.in) }
func (t terminal) hidden(question string) (string, error) {
	return typeHidden(t.in, t.prompt, question)
}
func (t terminal) secret() (typed [2]string, err error) { return typeTwice(t.in, t.prompt) }

// readLine reads one line and no byte more, because typeTwice reads the next one.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(in, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[0])
	}
}

// question is one thing that is asked.
type question struct {
	text, fallback string // the answer if nothing is typed
	// set takes an answer. Its error tells the mistake.
	set func(answer string) error
}

// ask asks until an answer is accepted.
func (q question) ask(t typist) error {
	for {
		t.say("%s", q.text)
		if q.fallback != "" {
			t.say(" [%s]", q.fallback)
		}
		t.say(": ")
		answer, err := t.line()
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		if answer = strings.TrimSpace(answer); answer == "" {
			answer = q.fallback
		}
		if err = q.set(answer); err == nil {
			return nil
		}
		for problem := range strings.SplitSeq(err.Error(), "\n") {
			t.say("  %s\n", problem)
		}
	}
}

// setText returns a function that takes an answer as it is.
func setText(answer *string) func(string) error {
	return func(typed string) error { *answer = typed; return nil }
}

// checked returns set with a check of the state after it, which stays as it was after a mistake.
func checked[T any](state *T, set func(string) error, check func() error) func(string) error {
	return func(answer string) error {
		before := *state
		err := set(answer)
		if err == nil {
			err = check()
		}
		if err != nil {
			*state = before
		}
		return err
	}
}
