/* SPDX-License-Identifier: MIT
 *
 * A token that the user chooses for --http. It comes from $GPU_DISPATCH_HTTP_TOKEN or from a private file. It never
 * comes from the command line, because all users of a machine can read that.
 */
#ifndef GD_CLI_RUN_HTTP_TOKEN_H
#define GD_CLI_RUN_HTTP_TOKEN_H

/* Takes the variable out of this process's environment, so that no worker gets it. Call it before any process is
 * started. */
void cli_token_take(void);

/* The token in file. If file is NULL: the token that cli_token_take() found. *from: the name of its source, for
 * messages. *token is NULL if there is no token. Valid until the next call. Returns 0, or -1 with gd__fail_text(). */
int cli_token_given(const char *file, const char **token, const char **from);

#endif
