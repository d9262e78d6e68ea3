// Package mcp reads one message of the Model Context Protocol: a JSON-RPC message in the body of a POST.
//
// [Read] refuses a body that two programs could read differently, and [Message.CheckHeaders] refuses
// headers that differ from it. So a decision on a [Message] is a decision on the body that a server
// gets, byte for byte.
//
// # Limits
//
// The caller bounds the size of a body. Nesting is bounded here. The package looks at the names of methods,
// tools, prompts, resources and tasks, and never at arguments or at answers of servers.
//
// # Threats
//
// A client may hide the name of a tool from the gateway and show it to the server. It may send a member
// twice, or in another case, or with NULs at the end of its name. It may send several messages in one
// body, text that is not UTF-8, surrogates without a pair, URIs with .. in their path, or headers that differ
// from the body. All of that is refused.
package mcp
