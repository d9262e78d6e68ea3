package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// A message of 2 KiB, as agents send them, is read in a few microseconds.
func BenchmarkRead(b *testing.B) {
	arguments := map[string]any{"query": strings.Repeat("some words ", 60), "limit": 20, "tags": []string{"a", "b"}}
	for i := range 12 {
		arguments["field"+string(rune('a'+i))] = strings.Repeat("value ", 16)
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 7, "method": "tools/call",
		"params": map[string]any{"name": "search_pages", "arguments": arguments},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(body); err != nil {
			b.Fatal(err)
		}
	}
}
