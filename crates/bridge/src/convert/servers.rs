//! MCP servers.

use switchboard_acp::{AbsolutePath, Text, v1, v2};

use crate::Error;
use crate::convert::{Conversion, meta};
use crate::loss::Severity;

/// Converts a server to version 2.
pub(crate) fn to_v2<'a>(
    server: v1::McpServer<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::McpServer<'a>, Error> {
    match server {
        v1::McpServer::Stdio(server) => {
            let v1::McpServerStdio { name, command, args, env, mut meta, mut extra, more: _ } = server;
            meta::disambiguate_type(&mut meta, &mut extra, "stdio");
            if !AbsolutePath::is_absolute(&*command) {
                let reason = "version 2 wants the absolute path of the program: a name passes as it is, and a \
                              strict agent refuses it";
                cx.key("command").omit(Severity::Minor, reason);
            }
            let (command, args, env) = (AbsolutePath::as_sent(command), Some(args), Some(env));
            Ok(v2::McpServer::Stdio(v2::McpServerStdio {
                name,
                command,
                args,
                env,
                meta,
                extra,
                more: switchboard_acp::More,
            }))
        }
        v1::McpServer::Http(server) => {
            let v1::McpServerHttp { name, url, headers, meta, extra, more: _ } = server;
            let headers = Some(headers);
            Ok(v2::McpServer::Http(v2::McpServerHttp {
                name,
                url,
                headers,
                meta,
                extra,
                more: switchboard_acp::More,
            }))
        }
        v1::McpServer::Acp(server) => Ok(v2::McpServer::Acp(server)),
        v1::McpServer::Sse(_) => Err(cx.error("version 2 has no servers that send events (sse)")),
        v1::McpServer::Unknown(unknown) => {
            let reason = format!("a kind of server that version 1 does not define: \"{}\"", unknown.tag);
            Err(cx.error(reason))
        }
        v1::McpServer::More(none) => none.never(),
    }
}

/// Converts a server to version 1.
pub(crate) fn to_v1<'a>(
    server: v2::McpServer<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::McpServer<'a>, Error> {
    match server {
        v2::McpServer::Stdio(server) => {
            let v2::McpServerStdio { name, command, args, env, meta, extra, more: _ } = server;
            let command = Text::Owned(command.as_str().to_owned());
            let (args, env) = (args.unwrap_or_default(), env.unwrap_or_default());
            Ok(v1::McpServer::Stdio(v1::McpServerStdio {
                name,
                command,
                args,
                env,
                meta,
                extra,
                more: switchboard_acp::More,
            }))
        }
        v2::McpServer::Http(server) => {
            let v2::McpServerHttp { name, url, headers, meta, extra, more: _ } = server;
            let headers = headers.unwrap_or_default();
            Ok(v1::McpServer::Http(v1::McpServerHttp {
                name,
                url,
                headers,
                meta,
                extra,
                more: switchboard_acp::More,
            }))
        }
        v2::McpServer::Acp(server) => Ok(v1::McpServer::Acp(server)),
        v2::McpServer::Unknown(unknown) => {
            Err(cx.error(format!("version 1 has no servers of type \"{}\"", unknown.tag)))
        }
        v2::McpServer::More(none) => none.never(),
    }
}
