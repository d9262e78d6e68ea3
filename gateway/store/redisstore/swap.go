package redisstore

// swapScript carries out Swap on the server. KEYS[1] is the key. ARGV is the
// current time; "+" and the old value, or "" for none; the string to store, or ""
// to delete the key; and its lifetime, or 0 for never. The script returns 1, or 0
// if the live value is another one.
//
// A time is two numbers here because a number in Lua has 53 bits only.
const swapScript = `
local live = redis.call('GET', KEYS[1])
if live then
	if #live < 9 or string.byte(live) ~= 1 then
		return redis.error_reply('ERR the value is not one that authgate wrote')
	end
	local high, low = struct.unpack('>I4I4', live, 2)
	local nowHigh, nowLow = struct.unpack('>I4I4', ARGV[1])
	if nowHigh > high or (nowHigh == high and nowLow >= low) then
		live = false
	end
end
local old = ''
if live then
	old = '+' .. string.sub(live, 10)
end
if old ~= ARGV[2] then
	return 0
end
if ARGV[3] == '' then
	redis.call('DEL', KEYS[1])
elseif ARGV[4] == '0' then
	redis.call('SET', KEYS[1], ARGV[3])
else
	redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
return 1
`
