package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"authgate/gateway/store/keyfile"
)

// Position is where a chain of lines has come to: the number of its last line, and the mac of that.
// The zero Position is before the first line.
type Position struct {
	Seq uint64
	MAC string // 64 lower-case hexadecimal digits; empty before the first line
}

// ParsePosition parses SEQ:MAC.
func ParsePosition(text string) (Position, error) {
	number, mac, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 || !validMAC(mac) {
		return Position{}, fmt.Errorf("%q is not SEQ:MAC, with the seq and the mac of a line", text)
	}
	return Position{seq, mac}, nil
}

// String returns SEQ:MAC.
func (p Position) String() string { return strconv.FormatUint(p.Seq, 10) + ":" + p.MAC }

func validMAC(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == text
}

// Key makes the macs of a chain.
type Key []byte

// keySize is the size of a Key in bytes.
const keySize = 32

// KeyFile returns the path of the key in a data_dir.
func KeyFile(dataDir string) string { return filepath.Join(dataDir, "audit.key") }

// KeepKey returns the key in a data_dir, and makes it if there is none.
func KeepKey(dataDir string) (Key, error) {
	path := KeyFile(dataDir)
	content, err := keyfile.Keep(path, func() ([]byte, error) {
		var key [keySize]byte
		_, err := rand.Read(key[:])
		return []byte(hex.EncodeToString(key[:]) + "\n"), err
	})
	if err != nil {
		return nil, err
	}
	return parseKey(path, content)
}

// ReadKey reads the key in a file.
func ReadKey(path string) (Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseKey(path, content)
}

func parseKey(path string, content []byte) (Key, error) {
	key, err := hex.DecodeString(strings.TrimSpace(string(content)))
	if err != nil || len(key) != keySize {
		return nil, errors.New(path + " is not a key of 64 hexadecimal digits: restore it from a backup; " +
			"without it no line that it made can be verified")
	}
	return key, nil
}

// A line is a JSON object whose last members are seq and mac: {…,"seq":7,"mac":"…"}. The mac covers
// the mac before it, and the line without its own mac and without its line break.
const (
	seqMember = `,"seq":`
	macMember = `,"mac":"`
	lineEnd   = `"}`
)

// next returns the position after p, of an object that has its seq and no mac.
func (k Key) next(p Position, object []byte) Position {
	sum := hmac.New(sha256.New, k)
	sum.Write([]byte(p.MAC))
	sum.Write(object)
	return Position{p.Seq + 1, hex.EncodeToString(sum.Sum(nil))}
}

// finish returns an object with its mac and a line break.
func finish(object []byte, mac string) []byte {
	return append(object[:len(object)-1], macMember+mac+lineEnd+"\n"...)
}

// cutLine returns the object that the mac of a line covers, and the position that the line has. The
// line has no line break. It does not look whether the mac is right.
func cutLine(line []byte) (object []byte, p Position, ok bool) {
	end := len(line) - len(lineEnd) - hex.EncodedLen(sha256.Size)
	at := end - len(macMember)
	if at < 0 || string(line[at:end]) != macMember || string(line[len(line)-len(lineEnd):]) != lineEnd {
		return nil, p, false
	}
	p.MAC = string(line[end : len(line)-len(lineEnd)])
	number := bytes.LastIndex(line[:at], []byte(seqMember))
	if number < 0 || !validMAC(p.MAC) {
		return nil, p, false
	}
	digits := string(line[number+len(seqMember) : at])
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || strconv.FormatUint(seq, 10) != digits {
		return nil, p, false
	}
	p.Seq = seq
	return append(bytes.Clone(line[:at]), '}'), p, true
}
