package mcp

import (
	"strings"
	"testing"
)

// A message of 2 KiB, as agents send them, is read in a few microseconds.
func BenchmarkRead(b *testing.B) {
	const begin = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search_notes","arguments":` +
		`{"title":"A note","tags":["work","later"],"limit":20,"open":true,"text":"`
	const line = `Each line says as much as people write, with a \"quotation\" now and then.\n`
	const end = `"},"_meta":{"progressToken":17}}}`
	body := []byte(begin + strings.Repeat(line, (2<<10-len(begin+end))/len(line)) + end)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(body); err != nil {
			b.Fatal(err)
		}
	}
}
